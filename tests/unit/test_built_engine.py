"""What was converted and built is held against the spec, and against the weights."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from engine.build import check_engine
from engine.convert import Scripts
from engine.errors import EngineError
from engine.spec import EngineSpec
from engine.workplace import Workplace
from fakes.workshop import SPEC, Workshop

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def workshop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Workshop:
    return Workshop(tmp_path, monkeypatch)


@pytest.mark.parametrize(
    ("stand_in", "words"),
    [
        ("convert_checkpoint.py=other", "the converted checkpoint has vocab_size 8364, not 8300"),
        ("convert_checkpoint.py=short", "ended without writing rank0.safetensors"),
        ("trtllm-build=other", "its build_config.max_num_tokens is 8192, the spec's 32768"),
        ("trtllm-build=short", "lacks rank0.engine"),
        ("trtllm-build=empty", "lacks rank0.engine, or they are empty"),
        ("convert_checkpoint.py=plain", 'has quant_algo null, not "W8A16"'),
    ],
)
def test_a_tool_that_makes_something_else_is_found_out(
    workshop: Workshop, stand_in: str, words: str
) -> None:
    workshop.use(stand_in)
    spec = EngineSpec(quantization="int8") if stand_in.endswith("plain") else SPEC

    with pytest.raises(EngineError) as caught:
        workshop.convert_and_build(spec)

    assert words in str(caught.value)
    assert not workshop.engine.exists()


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"gpu": "H100"}, "was built on L4, not on H100"),
        ({"max_batch": 8}, "its build_config.max_batch_size is 16, the spec's 8"),
        ({"trtllm_version": "0.18.0", "image": "25.03"}, 'its version is "0.17.0.post1", the spec'),
        ({"quantization": "int8"}, 'quant_algo is null, the spec\'s "W8A16"'),
        (
            {"kv_cache": "int8", "calibration": "speech"},
            'quantization.kv_cache_quant_algo is null, the spec\'s "INT8"',
        ),
        ({"tensor_parallel": 2}, "its pretrained_config.mapping.tp_size is 1, the spec's 2"),
    ],
)
def test_an_engine_for_another_version_gpu_or_limit_is_refused(
    workshop: Workshop, change: dict[str, object], words: str
) -> None:
    workshop.convert()
    workshop.build()

    with pytest.raises(EngineError) as caught:
        check_engine(replace(SPEC, **change), workshop.engine)  # type: ignore[arg-type]

    assert words in str(caught.value)


def test_a_checkpoint_made_of_other_weights_is_not_taken_for_this_one(workshop: Workshop) -> None:
    workshop.convert()
    fine_tuned = bytearray((workshop.llm / "model.safetensors").read_bytes())
    fine_tuned[len(fine_tuned) // 2] ^= 1
    (workshop.llm / "model.safetensors").write_bytes(fine_tuned)

    with pytest.raises(EngineError, match="was made from something else"):
        workshop.convert()


def test_local_weights_have_a_name_by_each_of_their_bytes(workshop: Workshop) -> None:
    def engine_folder() -> Path:
        model_dir = workshop.llm.parent
        return Workplace.of_local_weights(workshop.folder, SPEC, model_dir, Scripts()).engine

    before = engine_folder()
    assert engine_folder() == before
    weights = bytearray((workshop.llm / "model.safetensors").read_bytes())
    weights[len(weights) // 2] ^= 1
    (workshop.llm / "model.safetensors").write_bytes(weights)

    assert engine_folder() != before
