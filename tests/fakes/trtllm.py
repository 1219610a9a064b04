"""A machine with TensorRT-LLM and GPUs, as far as its tools are asked."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from pathlib import Path

TOOLS = Path(__file__).parent / "tools"


@dataclass
class FakeMachine:
    """Programs below `folder`: `bin` is for PATH, `site` for python3's packages."""

    folder: Path
    gpus: str = "NVIDIA L4, 8.9, 570.86.10\n"
    gpu_name: str = "L4"
    version: str | None = "0.17.0.post1"
    has_driver: bool = True
    smi_exit_code: int = 0

    def install(self) -> FakeMachine:
        """Write the programs."""
        for name in ("bin", "site", "examples/qwen"):
            (self.folder / name).mkdir(parents=True, exist_ok=True)
        self._program("python3", f'exec {sys.executable} "$@"')
        self._program("trtllm-build", f'exec {sys.executable} {TOOLS / "trtllm_build.py"} "$@"')
        (self.folder / "gpus").write_text(self._listing(), encoding="utf-8")
        if self.has_driver:
            listing = f"cat {self.folder / 'gpus'}; exit {self.smi_exit_code}"
            self._program("nvidia-smi", listing)
        script = self.folder / "examples" / "qwen" / "convert_checkpoint.py"
        code = f"import runpy, sys\nsys.path.insert(0, {str(TOOLS)!r})\n"
        code += f"runpy.run_path({str(TOOLS / script.name)!r}, run_name='__main__')\n"
        script.write_text(code, encoding="utf-8")
        if self.version is not None:
            package = self.folder / "site" / f"tensorrt_llm-{self.version}.dist-info"
            package.mkdir(exist_ok=True)
            metadata = f"Metadata-Version: 2.1\nName: tensorrt_llm\nVersion: {self.version}\n"
            (package / "METADATA").write_text(metadata, encoding="utf-8")
        return self

    def _listing(self) -> str:
        """Return the GPUs, each with a UUID, or what the driver says instead."""
        if self.smi_exit_code:
            return self.gpus
        lines = self.gpus.splitlines()
        return "".join(f"{line}, GPU-{number}\n" for number, line in enumerate(lines))

    def _program(self, name: str, text: str) -> None:
        path = self.folder / "bin" / name
        path.write_text(f"#!/bin/sh\n{text}\n", encoding="utf-8")
        path.chmod(0o755)

    def environment(self, **more: str) -> dict[str, str]:
        """Return this process's environment with the machine in it, and nothing of a real one."""
        return {
            **os.environ,
            "PATH": f"{self.folder / 'bin'}:/usr/bin:/bin",
            "PYTHONPATH": str(self.folder / "site"),
            "STAND_IN_GPU": self.gpu_name,
            "STAND_IN_VERSION": self.version or "",
            **more,
        }

    @property
    def examples(self) -> Path:
        """Where TensorRT-LLM's scripts are."""
        return self.folder / "examples"
