#!/usr/bin/env python3
"""What tools/check_readers.py takes for a reader without a bound or that may wait, and for a thread without a handler."""
import sys
import tempfile
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tools"))
from check_readers import uses_elsewhere  # noqa: E402


def check(**files):
    """How many uses are found in sources of these contents; `__` in a name stands for a slash."""
    with tempfile.TemporaryDirectory() as folder:
        for name, text in files.items():
            path = Path(folder, name.replace("__", "/") + ".cpp")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        return len(uses_elsewhere(Path(folder)))


class Readers(unittest.TestCase):
    def test_primitives_without_a_bound_are_found_anywhere(self):
        for text in ("boost::beast::flat_buffer buffer;", "beast::multi_buffer b;", "asio::streambuf b;",
                     "asio::dynamic_buffer(text)", "redisReaderFeed(reader, bytes, n);", "::recv(socket, to, n, 0);",
                     "SSL_read_ex(tls, to, n, &got);", "inflate(&stream, Z_NO_FLUSH);", "std::thread t(work);",
                     "std::vector<std::jthread> helpers;"):
            self.assertEqual(check(hub__new=text), 1, text)

    def test_files_are_read_in_one_place(self):
        for text in ("std::ifstream file(path);", "std::fstream both(path);", "std::istreambuf_iterator<char>(std::cin)",
                     "std::fopen(path.c_str(), mode)", "std::ofstream out(path);", "::open(path.c_str(), O_RDONLY | O_CLOEXEC);"):
            self.assertEqual(check(app__core__new=text), 1, text)
        self.assertEqual(check(base__read_file="::open(path, O_RDONLY);", app__new="std::istringstream words(line);",
                               base__write_file="std::ofstream out(path);"), 0)

    def test_a_thread_made_by_hand_is_found_next_to_its_home_too(self):
        for name in ("base__work_pool", "base__job_thread", "engine__engine_loop", "cache__store_courier"):
            self.assertEqual(check(**{name: "std::thread t(work);"}), 1, name)

    def test_their_homes_and_other_words_pass(self):
        self.assertEqual(check(net__gzip="inflateInit2(&s, 1); inflate(&s, 0);", base__thread="std::thread t;",
                               cache__byte_stream="::recv(s, to, n, 0);"), 0)
        self.assertEqual(check(hub__new="std::this_thread::yield(); std::thread::hardware_concurrency(); ReadBuffer b(9);\n"
                                        "// a std::thread would do"), 0)


if __name__ == "__main__":
    unittest.main()
