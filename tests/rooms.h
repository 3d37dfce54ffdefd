#pragma once
// Tests look into every room.

namespace orthobatch {
namespace base {}
namespace bench {}
namespace check {}
namespace cli {}
namespace core {}
namespace data {}
namespace experiment {}
namespace exporter {}
namespace io {}
namespace kernels {}
namespace nn {}
namespace ranks {}
namespace report {}
namespace run {}
namespace train {}
using namespace base;
using namespace check;
using namespace core;
using namespace data;
using namespace experiment;
using namespace exporter;
using namespace io;
using namespace kernels;
using namespace ranks;
using namespace report;
using namespace run;
using namespace train;
}  // namespace orthobatch
