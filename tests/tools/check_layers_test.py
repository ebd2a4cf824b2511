#!/usr/bin/env python3
"""What tools/check_layers.py takes for an arrow, and which tests for ones that need a GPU library's headers."""
import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tools"))
from check_layers import ROOT, arrows_between, tests_that_need_a_vendor, vendor_header_behind  # noqa: E402


class Arrows(unittest.TestCase):
    def test_are_counted_once_for_each_pair_of_folders(self):
        files = {"a/x.h": {"b/y.h", "a/z.h"}, "a/w.h": {"b/y.h", "c/room/v.h"}, "b/y.h": set()}
        self.assertEqual(arrows_between(files), {("a", "b"), ("a", "c")})


class VendorHeaders(unittest.TestCase):
    def test_are_found_behind_other_headers(self):
        way = vendor_header_behind(ROOT / "tests/gpu/sm90/wgmma_plan_test.cpp", {})
        self.assertGreater(len(way), 2)
        self.assertRegex(way[-1], r"<(cuda|hip/).*>")

    def test_are_not_behind_what_every_build_compiles(self):
        self.assertIsNone(vendor_header_behind(ROOT / "tests/gpu/gpu_quantised_test.cpp", {}))
        self.assertEqual(list(tests_that_need_a_vendor()), [])


if __name__ == "__main__":
    unittest.main()
