// Closes a C stream when its owner is destroyed: the deleter of a std::unique_ptr.
#pragma once

#include <cstdio>

namespace fulmar {

struct CloseFile {
  void operator()(std::FILE* file) const { std::fclose(file); }
};

}  // namespace fulmar
