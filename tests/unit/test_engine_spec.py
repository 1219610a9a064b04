from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

import pytest

from engine.errors import EngineError
from engine.spec import IMAGES, EngineSpec

SPEC = EngineSpec()

REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "float16": ({"dtype": "float16"}, "overflows in it and speaks garbage or nothing; take bfl"),
    "a type": ({"dtype": "int8"}, "dtype 'int8' is not known; there are: bfloat16, float32"),
    "a quantization": ({"quantization": "nf4"}, "quantization 'nf4' is not known; there are: none"),
    "a cache": ({"kv_cache": "int4"}, "KV cache 'int4' is not known; there are: auto, int8, fp8"),
    "a GPU": ({"gpu": "B200"}, "GPU 'B200' is not known; there are: V100, T4"),
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
    "paged context and int8": (
        {"kv_cache": "int8", "paged_context": True, "calibration": "speech"},
        "paged context FMHA does not work with an int8 KV cache",
    ),
    "not calibrated": ({"quantization": "smoothquant"}, "needs a data set of prompts followed by"),
    "calibrated for nothing": ({"calibration": "speech"}, "nothing here is calibrated"),
    "smoothquant": ({"smoothquant": 1.5}, "smoothquant is 1.5, allowed is 0 to 1"),
    "pruned and quantized": ({"pruned_head": True, "quantization": "int8"}, "not with int8"),
    "version and image": (
        {"trtllm_version": "0.20.0"},
        "runs only on the version that built it; take image 25.06, 25.07",
    ),
    "no such version": ({"trtllm_version": "0.17.1"}, "; take version 0.17.0.post1"),
    "an image": ({"image": "27.01"}, "image '27.01' is not known; there are: 24.12, 25.01"),
    "no batch": ({"max_batch": 0}, "max_batch is 0, at least 1 is needed"),
    "too long": ({"max_sequence": 40_000}, "max_sequence is 40000, the model was made for 32768"),
    "no room": ({"max_input": 32_768}, "max_input (32768) must leave room for output"),
    "a prompt too long": ({"max_tokens": 1000}, "max_tokens (1000) must hold"),
    "fewer tokens than requests": (
        {"max_tokens": 8, "paged_context": True},
        "max_tokens (8) must hold a token of each of 16 requests",
    ),
    "heads": (
        {"tensor_parallel": 4},
        "tensor_parallel is 4, the model's heads split into 1, 2, 14",
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
    "smoothquant": {"smoothquant": 0.7},
    "tensor_parallel": {"tensor_parallel": 2},
    "pipeline_parallel": {"pipeline_parallel": 2},
    "max_batch": {"max_batch": 8},
    "max_input": {"max_input": 2048},
    "max_sequence": {"max_sequence": 8192},
    "max_tokens": {"max_tokens": 8192},
    "paged_context": {"paged_context": True},
    "pruned_head": {"pruned_head": True},
    "gpu": {"gpu": "L40S"},
    "trtllm_version": {"trtllm_version": "0.18.0", "image": "25.03"},
    "image": {"trtllm_version": "1.2.1", "image": "26.07"},
    "extra_convert": {"extra_convert": (("workers", "2"),)},
    "extra_build": {"extra_build": (("workers", "2"),)},
}
ENGINES_ALONE = {"max_batch", "max_input", "max_sequence", "max_tokens", "paged_context"} | {
    "gpu",
    "extra_build",
}


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
    assert SPEC.key() == "L4-bfloat16-b16-trtllm0.17.0.post1-bf13e20a8d63"
    assert SPEC.checkpoint_key() == "bfloat16-trtllm0.17.0.post1-e1fb8a143dfb"
    assert SPEC.weights_key() == "SparkAudio--Spark-TTS-0.5B@main"


@pytest.mark.parametrize("image", IMAGES)
def test_every_image_has_its_version(image: str) -> None:
    spec = EngineSpec(image=image, trtllm_version=IMAGES[image])

    assert spec.container == f"nvcr.io/nvidia/tritonserver:{image}-trtllm-python-py3"
