#pragma once

#include <torch/csrc/distributed/c10d/Store.hpp>

#include "ranks/store.h"

namespace orthobatch {

struct Store::Impl {
  c10::intrusive_ptr<c10d::Store> store;
  int port;
};

}  // namespace orthobatch
