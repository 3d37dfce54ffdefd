#include "base/processor.h"
#include "core/small.h"

#define ORTHOBATCH_DECLARE_SMALL(set) \
  namespace orthobatch::core::set {   \
  extern const Small of_small;        \
  }
ORTHOBATCH_DECLARE_SMALL(plain)
#ifdef ORTHOBATCH_X86
ORTHOBATCH_DECLARE_SMALL(avx2)
ORTHOBATCH_DECLARE_SMALL(avx512)
#endif

namespace orthobatch::core {

const Small& small() {
#ifdef ORTHOBATCH_X86
  static const Small& chosen = base::loop_set() == base::LoopSet::avx512 ? avx512::of_small
                               : base::loop_set() == base::LoopSet::avx2 ? avx2::of_small
                                                                         : plain::of_small;
  return chosen;
#else
  return plain::of_small;
#endif
}

}  // namespace orthobatch::core
