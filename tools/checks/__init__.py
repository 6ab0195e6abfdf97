"""The rules of tools/check, a module each; REGISTRY in registry.py lists them."""
