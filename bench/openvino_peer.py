#!/usr/bin/env python3
"""Measures OpenVINO GenAI on a GGUF model as `quire bench engine` measures Quire: one user, greedy, the end of text ignored.

usage: openvino_peer.py MODEL.gguf PROMPT_TOKENS NEW_TOKENS THREADS
Prints one JSON line: prompt_tokens, prefill_tps (until the first token), decode_tps (from the first to the last token), rss_mib.
Runs inside the virtual environment that bench/compare-peers makes.
"""
import json
import random
import resource
import sys
import time

import openvino_genai

WORDS = "house river seven light under stone garden paper winter music answer yellow bridge market silent number".split()


def prompt_of(pipeline, tokens, seed):
    """A text of random words with about `tokens` tokens, never fewer than one."""
    words = [random.Random(seed).choice(WORDS) for _ in range(2 * tokens)]
    low, high = 1, len(words)
    while low < high:  # tokens grow with words
        middle = (low + high + 1) // 2
        if pipeline.get_tokenizer().encode(" ".join(words[:middle])).input_ids.shape[1] <= tokens:
            low = middle
        else:
            high = middle - 1
    return " ".join(words[:low])


def measure(pipeline, prompt_tokens, new_tokens, seed):
    config = openvino_genai.GenerationConfig()
    config.max_new_tokens, config.ignore_eos = new_tokens, True
    config.do_sample, config.apply_chat_template = False, False
    prompt = prompt_of(pipeline, prompt_tokens, seed)
    count = pipeline.get_tokenizer().encode(prompt).input_ids.shape[1]
    start = time.perf_counter()
    handle = pipeline.add_request(seed, prompt, config)
    arrivals = []
    while pipeline.has_non_finished_requests():
        pipeline.step()
        while handle.can_read():
            new = sum(len(output.generated_ids) for output in handle.read().values())
            arrivals += [time.perf_counter()] * new
    span = arrivals[-1] - arrivals[0]
    return {"prompt_tokens": count, "prefill_tps": count / (arrivals[0] - start),
            "decode_tps": (len(arrivals) - 1) / span if span > 0 else 0,
            "rss_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024}


def main():
    model, prompt_tokens, new_tokens, threads = sys.argv[1], *map(int, sys.argv[2:5])
    scheduler = openvino_genai.SchedulerConfig()
    scheduler.cache_size, scheduler.max_num_batched_tokens = 1, 512
    pipeline = openvino_genai.ContinuousBatchingPipeline(model, scheduler, "CPU", {"INFERENCE_NUM_THREADS": threads})
    measure(pipeline, 32, 8, 1)  # warms up
    print(json.dumps(measure(pipeline, prompt_tokens, new_tokens, 2)))


if __name__ == "__main__":
    main()
