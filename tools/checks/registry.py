"""All checks, in the order in which tools/check runs them: the quick ones first."""

from checks import banned, disabled, formatting, headers, layers, links, packages, shell, sizes

REGISTRY = (layers, sizes, banned, disabled, links, packages, shell, formatting, headers)
