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

}  // namespace fulmar
