"""Stands in for the package expecttest, which PyTorch's databases import for their own tests, where it is missing."""
import importlib.util
import sys
import types
import unittest

if importlib.util.find_spec("expecttest") is None:
    stand_in = types.ModuleType("expecttest")
    stand_in.TestCase = unittest.TestCase
    sys.modules["expecttest"] = stand_in
