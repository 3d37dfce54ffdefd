#include "train/events.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>

#include "io/checksum.h"
#include "io/file.h"
#include "run/names.h"

namespace orthobatch::train {
namespace {

// Protobuf's wire format: a key is (field number << 3 | type).
enum WireType { varint_type = 0, fixed64_type = 1, bytes_type = 2, fixed32_type = 5 };

void put_varint(std::string& out, uint64_t x) {
  for (; x >= 128; x >>= 7) out += static_cast<char>((x & 127) | 128);
  out += static_cast<char>(x);
}

void put_key(std::string& out, int field, WireType type) { put_varint(out, field << 3 | type); }

template <typename T>
void put_raw(std::string& out, T x) {
  char bytes[sizeof x];
  std::memcpy(bytes, &x, sizeof x);
  out.append(bytes, sizeof x);
}

void put_double(std::string& out, int field, double x) {
  put_key(out, field, fixed64_type);
  put_raw(out, x);
}

void put_float(std::string& out, int field, float x) {
  put_key(out, field, fixed32_type);
  put_raw(out, x);
}

void put_integer(std::string& out, int field, int64_t x) {
  put_key(out, field, varint_type);
  put_varint(out, static_cast<uint64_t>(x));
}

void put_bytes(std::string& out, int field, const std::string& x) {
  put_key(out, field, bytes_type);
  put_varint(out, x.size());
  out += x;
}

double wall_time() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

/// message Event { double wall_time = 1; int64 step = 2; string file_version = 3;
///                 Summary summary = 5; SessionLog session_log = 7; }
std::string event_at(int64_t step) {
  std::string event;
  put_double(event, 1, wall_time());
  if (step != 0) put_integer(event, 2, step);
  return event;
}

/// TFRecord's sums are turned and shifted, so that a sum over data holding sums stays useful.
uint32_t masked_crc(const std::string& data) {
  const uint32_t crc = io::crc32c(data.data(), data.size());
  return ((crc >> 15) | (crc << 17)) + 0xa282ead8u;
}

}  // namespace

EventWriter::EventWriter(const std::string& directory, int64_t first_step) {
  char host[128] = "host";
  ::gethostname(host, sizeof host - 1);
  const std::string name = io::join_path(
      directory, run::events_prefix + std::to_string(static_cast<int64_t>(wall_time())) + "." +
                     host + "." + std::to_string(::getpid()));
  // Always a file of its own: a run may be taken up twice within a second.
  for (int attempt = 0; !file_; ++attempt) {
    path_ = attempt == 0 ? name : name + "." + std::to_string(attempt);
    const int fd =
        ::open(path_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
    if (fd >= 0)
      file_ = ::fdopen(fd, "wb");
    else if (errno != EEXIST || attempt == 1000)
      throw io::FileError(path_, "cannot write", errno);
  }
  std::string version = event_at(0);
  put_bytes(version, 3, "brain.Event:2");
  record(version);
  if (first_step > 0) {
    std::string start, session;
    put_integer(session, 1, 1);  // SessionLog.status = START: forget this step and later ones
    start = event_at(first_step);
    put_bytes(start, 7, session);
    record(start);
  }
}

EventWriter::~EventWriter() { std::fclose(file_); }

void EventWriter::scalars(int64_t step, const std::vector<std::pair<std::string, double>>& values) {
  std::string summary;  // message Summary { repeated Value value = 1; }
  for (const auto& [tag, x] : values) {
    std::string value;  // message Value { string tag = 1; float simple_value = 2; }
    put_bytes(value, 1, tag);
    put_float(value, 2, static_cast<float>(x));
    put_bytes(summary, 1, value);
  }
  std::string event = event_at(step);
  put_bytes(event, 5, summary);
  record(event);
}

void EventWriter::record(const std::string& event) {
  std::string head, out;
  put_raw(head, static_cast<uint64_t>(event.size()));
  out = head;
  put_raw(out, masked_crc(head));
  out += event;
  put_raw(out, masked_crc(event));
  if (std::fwrite(out.data(), 1, out.size(), file_) != out.size() || std::fflush(file_) != 0)
    throw io::FileError(path_, "cannot write", errno);
}

}  // namespace orthobatch::train
