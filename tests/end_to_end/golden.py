"""The exact log probabilities of a text under the real models, and how far others are from them."""

import functools
import gzip
import json
import math

import support

TEXT = support.DATA / "text_a.txt"


def read(path):
    opened = gzip.open(path, "rt") if str(path).endswith(".gz") else open(path, encoding="utf-8")
    with opened as lines:
        return [json.loads(line) for line in lines if line.strip()]


@functools.cache
def rows(model):
    """The golden positions of "smollm2" or "gemma3"."""
    return read(support.DATA / f"{model}_text_a.jsonl.gz")


def ids(model, count=None):
    return [row["token"] for row in rows(model)[:count]]


def _divergence(exact, other):
    """The Kullback-Leibler divergence over the exact row's top tokens and one bucket for the rest. A token that the other row does
    not list has a thousandth of its rest."""
    listed = dict(map(tuple, other))
    unlisted = math.log(max(1e-9, 1 - sum(map(math.exp, listed.values())))) - math.log(1000)
    total, exact_rest, other_rest = 0.0, 1.0, 1.0
    for token, logprob in exact:
        other_logprob = listed.get(token, unlisted)
        total += math.exp(logprob) * (logprob - other_logprob)
        exact_rest -= math.exp(logprob)
        other_rest -= math.exp(other_logprob)
    if exact_rest > 1e-9:
        total += exact_rest * math.log(exact_rest / max(other_rest, 1e-9))
    return total


def mean_divergence(exact_rows, other_rows):
    return sum(_divergence(exact["top"], other["top"]) for exact, other in zip(exact_rows, other_rows, strict=True)) / len(exact_rows)


def differences(exact_rows, other_rows):
    """The differences of the next token's log probability, position by position, where both have one."""
    pairs = ((exact["next_logprob"], other["next_logprob"]) for exact, other in zip(exact_rows, other_rows, strict=True))
    return [abs(exact - other) for exact, other in pairs if exact is not None and other is not None]
