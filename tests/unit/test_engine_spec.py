from __future__ import annotations

from dataclasses import fields, replace
from typing import TYPE_CHECKING, Any

import pytest

from engine.errors import EngineError
from engine.spec import CAPABILITIES, IMAGES, EngineSpec
from engine.tensorrtllm import read_engine
from fakes.engine_folder import write_engine

if TYPE_CHECKING:
    from pathlib import Path

SPEC = EngineSpec()

REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "float16": ({"dtype": "float16"}, "overflows in it and speaks garbage or nothing; take bfl"),
    "a type": ({"dtype": "int8"}, "dtype 'int8' is not known; there are: bfloat16, float32"),
    "a quantization": ({"quantization": "nf4"}, "quantization 'nf4' is not known; there are: none"),
    "a cache": ({"kv_cache": "int4"}, "KV cache 'int4' is not known; there are: auto, int8, fp8"),
    "a GPU": ({"gpu": "V100"}, "GPU 'V100' is not known; there are: T4, A100"),
    "bfloat16 on T4": ({"gpu": "T4"}, "T4 cannot compute in bfloat16"),
    "fp8 on A100": (
        {"gpu": "A100", "quantization": "fp8", "calibration": "speech"},
        "A100 cannot compute in fp8, which needs compute capability 8.9 or later",
    ),
    "fp8 cache alone": (
        {"kv_cache": "fp8", "calibration": "speech"},
        "an fp8 KV cache goes with quantization fp8 only",
    ),
    "fp8 with an int8 cache": (
        {"quantization": "fp8", "kv_cache": "int8", "calibration": "speech"},
        "quantization fp8 keeps its KV cache in fp8 or auto",
    ),
    "not calibrated": (
        {"quantization": "smoothquant"},
        "--quantization smoothquant needs a data set of prompts followed by speech tokens: name i",
    ),
    "a cache that is not calibrated": ({"kv_cache": "int8"}, "--kv-cache int8 needs a data set of"),
    "neither is calibrated": (
        {"quantization": "fp8", "kv_cache": "fp8"},
        "--quantization fp8 with --kv-cache fp8 needs a data set",
    ),
    "calibrated for nothing": ({"calibration": "speech"}, "nothing here is calibrated"),
    "smoothquant": ({"smoothquant": 1.5}, "smoothquant is 1.5, allowed is 0 to 1"),
    "smoothquant for nothing": (
        {"smoothquant": 0.7},
        "smoothquant 0.7 has no effect: it is for quantization smoothquant, and here it is none",
    ),
    "groups for nothing": (
        {"quantization": "int8", "extra_convert": (("group_size", "64"),)},
        "option group_size has no effect: it is for quantization int4_gptq, and here it is int8",
    ),
    "no plugin for nothing": (
        {"extra_convert": (("disable_weight_only_quant_plugin", ""),)},
        "has no effect: it is for quantization int8, int4, int4_gptq, and here it is none",
    ),
    "pruned and quantized": ({"pruned_head": True, "quantization": "int8"}, "not with int8"),
    "pruned and an int8 cache": (
        {"pruned_head": True, "kv_cache": "int8", "calibration": "speech"},
        "not with none and a KV cache of int8",
    ),
    "version and image": (
        {"trtllm_version": "0.20.0"},
        "runs only on the version that built it; take image 25.06, 25.07",
    ),
    "no such version": ({"trtllm_version": "0.17.1"}, "; take version 0.17.0.post1"),
    "an image": ({"image": "27.01"}, "image '27.01' is not known; there are: 25.01, 25.02"),
    "no batch": ({"max_batch": 0}, "max_batch is 0, at least 1 is needed"),
    "too long": ({"max_sequence": 40_000}, "max_sequence is 40000, the model was made for 32768"),
    "no room": ({"max_input": 32_768}, "max_input (32768) must leave room for output"),
    "a prompt too long": ({"max_tokens": 1000}, "(1000) must hold a whole prompt of 1024"),
    "more tokens than there can be": (
        {"max_batch": 2, "max_sequence": 4096},
        "max_tokens is 32768, but 2 requests of 4096 tokens are 8192, and trtllm-build takes no",
    ),
    "fewer tokens than requests": (
        {"max_tokens": 8, "max_input": 4},
        "max_tokens (8) must hold a whole prompt of 4 and a token of each of 16 requests",
    ),
    "heads": (
        {"tensor_parallel": 14},
        "tensor_parallel is 14, the model's heads split into 1, 2",
    ),
    "layers": ({"pipeline_parallel": 5}, "pipeline_parallel is 5, which does not divide 24 layers"),
    "an option": ({"extra_build": (("worker", "2"),)}, "did you mean workers?"),
    "fp8's script": (
        {"quantization": "fp8", "calibration": "speech", "extra_convert": (("workers", "2"),)},
        "takes no extra convert options",
    ),
}

OTHERS: dict[str, dict[str, Any]] = {
    "model": {"model": "someone/else"},
    "revision": {"revision": "0" * 40},
    "dtype": {"dtype": "float32"},
    "quantization": {"quantization": "int8"},
    "kv_cache": {"kv_cache": "int8", "calibration": "speech"},
    "calibration": {"calibration": "other", "quantization": "smoothquant"},
    "smoothquant": {"smoothquant": 0.7, "quantization": "smoothquant", "calibration": "speech"},
    "tensor_parallel": {"tensor_parallel": 2},
    "pipeline_parallel": {"pipeline_parallel": 2},
    "max_batch": {"max_batch": 8},
    "max_input": {"max_input": 2048},
    "max_sequence": {"max_sequence": 8192},
    "max_tokens": {"max_tokens": 8192},
    "pruned_head": {"pruned_head": True},
    "gpu": {"gpu": "L40S"},
    "trtllm_version": {"trtllm_version": "0.18.0", "image": "25.03"},
    "image": {"trtllm_version": "1.2.1", "image": "26.07"},
    "extra_convert": {"extra_convert": (("workers", "2"),)},
    "extra_build": {"extra_build": (("workers", "2"),)},
}
ENGINES_ALONE = {"max_batch", "max_input", "max_sequence", "max_tokens", "gpu", "extra_build"}


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_go_together_is_refused_with_a_reason(case: str) -> None:
    changes, words = REFUSED[case]

    with pytest.raises(EngineError) as caught:
        EngineSpec(**changes)

    assert words in str(caught.value)


def test_all_faults_are_named_at_once() -> None:
    with pytest.raises(EngineError) as caught:
        EngineSpec(dtype="float16", max_batch=0, pipeline_parallel=7)

    assert str(caught.value).count("; ") >= 3


def test_no_fault_follows_from_another_one() -> None:
    with pytest.raises(EngineError) as caught:
        EngineSpec(max_batch=0, max_input=-1)

    assert str(caught.value) == (
        "max_batch is 0, at least 1 is needed; max_input is -1, at least 1 is needed"
    )


def test_every_field_makes_another_engine() -> None:
    keys = {name: replace(SPEC, **changes).key() for name, changes in OTHERS.items()}

    assert set(keys) == {field.name for field in fields(EngineSpec)}
    assert len({SPEC.key(), *keys.values()}) == len(keys) + 1


def test_engines_with_other_limits_share_a_checkpoint() -> None:
    shared = {
        name
        for name, changes in OTHERS.items()
        if replace(SPEC, **changes).checkpoint_key() == SPEC.checkpoint_key()
    }

    assert shared == ENGINES_ALONE


def test_a_key_stays_the_same_and_can_be_read() -> None:
    """A key that changes with a release of ours would have every engine built again."""
    assert SPEC.key() == "L4-bfloat16-b16-trtllm0.17.0.post1-8d8d9815be90"
    assert SPEC.checkpoint_key() == "bfloat16-trtllm0.17.0.post1-e1fb8a143dfb"
    assert SPEC.weights_key() == "SparkAudio--Spark-TTS-0.5B@main"


def test_the_images_are_those_of_nvidias_matrix() -> None:
    """Each is the container that an engine of its release is built and served in."""
    assert IMAGES == {
        "25.01": "0.17.0",
        "25.02": "0.17.0.post1",
        "25.03": "0.18.0",
        "25.04": "0.18.2",
        "25.05": "0.19.0",
        "25.06": "0.20.0",
        "25.07": "0.20.0",
        "25.08": "0.21.0",
        "25.09": "1.0.0",
        "25.10": "1.0.0",
        "25.11": "1.0.3",
        "25.12": "1.1.0",
        "26.01": "1.1.0",
        "26.02": "1.1.0",
        "26.03": "1.2.0",
        "26.04": "1.2.1",
        "26.05": "1.2.1",
        "26.06": "1.2.1",
        "26.07": "1.2.1",
    }
    assert SPEC.container == "nvcr.io/nvidia/tritonserver:25.02-trtllm-python-py3"


@pytest.mark.parametrize("image", IMAGES)
def test_an_engine_of_every_image_can_be_rendered(image: str, tmp_path: Path) -> None:
    assert read_engine(write_engine(tmp_path, IMAGES[image])).release()


def test_the_gpus_have_nvidias_compute_capabilities() -> None:
    assert CAPABILITIES == {
        "T4": (7, 5),
        "A100": (8, 0),
        "A30": (8, 0),
        "A10": (8, 6),
        "A10G": (8, 6),
        "A40": (8, 6),
        "L2": (8, 9),
        "L4": (8, 9),
        "L20": (8, 9),
        "L40": (8, 9),
        "L40S": (8, 9),
        "4090": (8, 9),
        "H20": (9, 0),
        "H100": (9, 0),
        "H200": (9, 0),
        "B200": (10, 0),
    }
