"""Spark-TTS's language model on vLLM's asynchronous engine (the extra `vllm`, a CUDA GPU).

Requests share a batch that they join and leave at every step, and the memory for keys and
values in pages; those that do not fit wait. `requests.VllmRequests` is what a model.py needs.
"""
