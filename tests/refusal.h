#pragma once
// What a file is refused with.

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "io/file.h"
#include "rooms.h"

namespace orthobatch::test {

/// The message of the FileError that `action` throws; empty when it throws none.
template <typename Action>
std::string refused(const Action& action) {
  try {
    action();
  } catch (const FileError& error) {
    return error.what();
  }
  return "";
}

inline void expect_words(const std::string& message, const std::vector<std::string>& parts) {
  for (const std::string& part : parts)
    EXPECT_NE(message.find(part), std::string::npos) << "no '" << part << "' in: " << message;
}

}  // namespace orthobatch::test
