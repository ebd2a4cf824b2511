#include "base/heap.h"

#include <cstdlib>

#ifdef __GLIBC__
#include <malloc.h>
#endif

namespace fulmar {

void bound_kept_memory() {
#ifdef __GLIBC__
  mallopt(M_MMAP_THRESHOLD, kMappedBlock);
  mallopt(M_TRIM_THRESHOLD, kMappedBlock);
#endif
}

void return_free_memory() {
#ifdef __GLIBC__
  if (mallinfo2().fordblks > kMostFree) malloc_trim(0);
#endif
}

}  // namespace fulmar
