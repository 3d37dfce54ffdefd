#pragma once
// What an exception says, for a person.

#include <c10/util/Exception.h>

#include <exception>
#include <new>
#include <string>

namespace orthobatch {

/// Without the stack trace that torch's messages carry after their first part, and with one word
/// for the many ways of having no memory.
inline std::string message_of(const std::exception& error) {
  if (dynamic_cast<const std::bad_alloc*>(&error))
    return "memory is short: a block of it was asked for and could not be had";
  const auto* torch_error = dynamic_cast<const c10::Error*>(&error);
  if (!torch_error) return error.what();
  const std::string text = torch_error->what_without_backtrace();
  const std::string allocation = "can't allocate memory: you tried to allocate ";
  const size_t at = text.find(allocation);
  if (at == std::string::npos) return text;
  const size_t number = at + allocation.size();
  return "memory is short: " + text.substr(number, text.find(' ', number) - number) +
         " bytes were asked for and could not be had";
}

}  // namespace orthobatch
