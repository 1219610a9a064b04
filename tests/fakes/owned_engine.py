"""A process that starts another one with vLLM's executor in it, says its id, and waits."""

from __future__ import annotations

import multiprocessing
import os
import threading


def engine() -> None:
    import fakes.vllm  # noqa: F401, PLC0415  in vLLM's place, here too
    from speech_backend.vllm_engine.start import OwnedExecutor  # noqa: PLC0415

    executor = OwnedExecutor()
    executor._init_executor()
    sampler = executor.driver_worker.worker.model_runner.sampler
    os.write(1, f"{os.getpid()} {type(sampler.logit_bias_state).__name__}\n".encode())
    threading.Event().wait()


if __name__ == "__main__":
    multiprocessing.get_context("spawn").Process(target=engine).start()
    threading.Event().wait()
