#pragma once
// What an exception says, for a person.

#include <c10/util/Exception.h>

#include <exception>
#include <new>
#include <string>

namespace orthobatch {

/// Without the stack trace that torch's messages carry after their first part, and with one text
/// for all failed allocations.
inline std::string message_of(const std::exception& error) {
  if (dynamic_cast<const std::bad_alloc*>(&error)) return "out of memory: an allocation failed";
  const auto* torch_error = dynamic_cast<const c10::Error*>(&error);
  if (!torch_error) return error.what();
  const std::string text = torch_error->what_without_backtrace();
  const std::string allocation = "can't allocate memory: you tried to allocate ";
  const size_t at = text.find(allocation);
  if (at == std::string::npos) return text;
  const size_t number = at + allocation.size();
  return "out of memory: could not allocate " +
         text.substr(number, text.find(' ', number) - number) + " bytes";
}

}  // namespace orthobatch
