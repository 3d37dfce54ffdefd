#include "bench/sections.h"

namespace orthobatch::bench {
namespace {

constexpr const char* digit_nets[] = {"mnist", "svhn"};

/// A step is short beside a round over all layers.
Session with_more_repeats(Session session, const Request& request) {
  session.repeats *= request.quick ? 1 : 3;
  return session;
}

}  // namespace

const std::vector<Section>& sections() {
  using Done = std::function<void(Table)>;
  static const std::vector<Section> all = {
      {"layers",
       [](const Request& r, const Session& session, const Done& done) {
         for (const Shape& shape : r.shapes)
           for (const Layout layout : r.layouts)
             done(measure_layers(shape, layout, r.candidates, session));
       }},
      {"scaling",
       [](const Request& r, const Session& session, const Done& done) {
         std::vector<Shape> channels, samples;
         for (int64_t n = 16; n <= (r.quick ? 64 : 512); n *= 2) {
           channels.push_back({r.quick ? 4 : 64, n, 14, 14});
           samples.push_back({n, r.quick ? 16 : 64, 14, 14});
         }
         done(measure_scaling("channels", channels, session));
         done(measure_scaling("samples", samples, session));
       }},
      {"step",
       [](const Request& r, const Session& session, const Done& done) {
         for (const char* data : digit_nets)
           done(measure_step(data, r.quick ? 8 : 256, with_more_repeats(session, r)));
       }},
      {"inference",
       [](const Request& r, const Session& session, const Done& done) {
         for (const char* data : digit_nets)
           for (const int64_t batch : {1, r.quick ? 8 : 256})
             done(measure_inference(data, batch, r.quick ? 8 : 256, with_more_repeats(session, r)));
       }},
      {"stack", [](const Request& r, const Session& session,
                   const Done& done) { done(measure_step("stack", r.quick ? 16 : 64, session)); }},
  };
  return all;
}

}  // namespace orthobatch::bench
