// Mutates inputs for a while: fuzz_TARGET [SECONDS [SEED]], or fuzz_TARGET FILE to run one again.
//
// An input that reaches code no other has reached joins the corpus. The sanitizers end the process
// at a fault; the input is then in fuzz-crash.bin.

#include "fuzz.h"

#include <sys/mman.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>

#include "data/random.h"

namespace {

using Input = std::vector<uint8_t>;
using orthobatch::Random;

constexpr size_t map_size = 1 << 16, largest_input = 1 << 16;
uint8_t reached[map_size];  // by the input under way
uint8_t reached_before[map_size];
uintptr_t last_place = 0;

constexpr const char* crash_file = "fuzz-crash.bin";

}  // namespace

/// Called by the instrumented code at every edge.
extern "C" __attribute__((no_sanitize("address", "undefined"))) void __sanitizer_cov_trace_pc() {
  const auto place = reinterpret_cast<uintptr_t>(__builtin_return_address(0));
  uint8_t& hit = reached[((place >> 1) ^ last_place) % map_size];
  if (hit < 255) ++hit;
  last_place = place >> 3;
}

namespace {

/// How often, in steps: once, twice, a few times, many times.
uint8_t bucket(uint8_t hits) { return hits <= 2 ? hits : hits <= 8 ? 4 : hits <= 64 ? 8 : 16; }

bool reaches_new_code() {
  bool fresh = false;
  for (size_t i = 0; i < map_size; ++i) {
    if (reached[i] == 0) continue;
    const uint8_t bits = bucket(reached[i]);
    fresh = fresh || (bits & ~reached_before[i]) != 0;
    reached_before[i] |= bits;
  }
  return fresh;
}

/// The input of the moment, in a mapped file: it is there whatever ends the process.
class CrashFile {
 public:
  CrashFile() {
    std::FILE* file = std::fopen(crash_file, "wb+");
    const size_t size = largest_input + sizeof(uint64_t);
    if (!file || std::fseek(file, static_cast<long>(size - 1), SEEK_SET) != 0 ||
        std::fputc(0, file) == EOF || std::fflush(file) != 0)
      std::abort();
    map_ = static_cast<uint8_t*>(
        ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, ::fileno(file), 0));
    std::fclose(file);
    if (map_ == MAP_FAILED) std::abort();
  }
  void hold(const Input& input) {
    const uint64_t size = input.size();
    std::memcpy(map_, &size, sizeof size);
    if (size > 0) std::memcpy(map_ + sizeof size, input.data(), size);
  }

 private:
  uint8_t* map_;
};

Input read_crash(const char* path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) {
    std::fprintf(stderr, "cannot read %s\n", path);
    std::exit(2);
  }
  const std::string all((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  uint64_t size = 0;
  std::memcpy(&size, all.data(), std::min(sizeof size, all.size()));
  size = std::min<uint64_t>(size, all.size() - std::min(sizeof size, all.size()));
  const auto* start = reinterpret_cast<const uint8_t*>(all.data()) + sizeof size;
  return {start, start + size};
}

void mutate(Input& x, const std::vector<Input>& all, Random& random) {
  const auto place = [&] { return static_cast<size_t>(random.below(x.size())); };
  const uint64_t changes = 1 + random.below(4);
  for (uint64_t i = 0; i < changes; ++i) {
    if (x.empty()) x.push_back(0);
    switch (random.below(8)) {
      case 0:
        x[place()] ^= static_cast<uint8_t>(1u << random.below(8));
        break;
      case 1:
        x[place()] = static_cast<uint8_t>(random.bits());
        break;
      case 2:
        x.resize(place());
        break;
      case 3: {  // a number that is often a limit, in either order of bytes
        static const uint32_t numbers[] = {0,      1,      2,          0x7f,       0xff,      0x100,
                                           0x7fff, 0xffff, 0x7fffffff, 0x80000000, 0xffffffff};
        uint32_t number = numbers[random.below(std::size(numbers))];
        if (random.below(2)) number = __builtin_bswap32(number);
        const size_t at = place();
        std::memcpy(x.data() + at, &number, std::min(sizeof number, x.size() - at));
        break;
      }
      case 4: {  // a piece of another input
        const Input& other = all[random.below(all.size())];
        if (other.empty()) break;
        const size_t from = random.below(other.size());
        const size_t n = 1 + random.below(std::min<size_t>(64, other.size() - from));
        x.insert(x.begin() + static_cast<std::ptrdiff_t>(random.below(x.size() + 1)),
                 other.begin() + static_cast<std::ptrdiff_t>(from),
                 other.begin() + static_cast<std::ptrdiff_t>(from + n));
        break;
      }
      case 5: {
        const size_t from = place();
        const size_t n = 1 + random.below(std::min<size_t>(64, x.size() - from));
        x.erase(x.begin() + static_cast<std::ptrdiff_t>(from),
                x.begin() + static_cast<std::ptrdiff_t>(from + n));
        break;
      }
      case 6:
        x[place()] += static_cast<uint8_t>(random.below(2) ? 1 : 255);
        break;
      default:
        x.insert(x.end(), 1 + random.below(16), static_cast<uint8_t>(random.bits()));
        break;
    }
  }
  if (x.size() > largest_input) x.resize(largest_input);
}

}  // namespace

int main(int argc, char** argv) {
  const std::string first = argc > 1 ? argv[1] : "10";
  if (!first.empty() && first.find_first_not_of("0123456789.") != std::string::npos) {
    std::printf("%s\n", accepts(read_crash(first.c_str())) ? "accepted" : "refused");
    return 0;
  }
  const double seconds = std::atof(first.c_str());
  Random random(argc > 2 ? std::strtoull(argv[2], nullptr, 10) : 1);
  std::vector<Input> inputs = corpus();
  CrashFile crash;
  const size_t given = inputs.size();
  for (const Input& input : inputs) {
    crash.hold(input);
    last_place = 0;
    std::memset(reached, 0, map_size);
    if (!accepts(input)) {
      std::fprintf(stderr, "an input of the corpus is refused\n");
      return 1;
    }
    reaches_new_code();
  }
  uint64_t tried = 0, accepted = 0;
  const auto start = std::chrono::steady_clock::now();
  while (std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count() <
         seconds) {
    Input input = inputs[random.below(inputs.size())];
    mutate(input, inputs, random);
    crash.hold(input);
    last_place = 0;
    std::memset(reached, 0, map_size);
    accepted += accepts(input);
    ++tried;
    if (reaches_new_code()) inputs.push_back(std::move(input));
  }
  std::remove(crash_file);
  std::printf("%llu inputs, %llu of them accepted, corpus grown from %zu to %zu\n",
              static_cast<unsigned long long>(tried), static_cast<unsigned long long>(accepted),
              given, inputs.size());
  // One that learns nothing from a mutation is not instrumented.
  return tried > 100 && inputs.size() > given ? 0 : 1;
}
