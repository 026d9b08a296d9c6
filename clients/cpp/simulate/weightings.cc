#include "clients/cpp/simulate/weightings.h"

#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <functional>
#include <map>
#include <numbers>
#include <string_view>

#include "clients/cpp/base/usage_error.h"
#include "clients/cpp/simulate/subject/bloch.h"

namespace echotrain::client {
namespace {

using Signal = std::function<cdouble(const Tissue&)>;

constexpr std::size_t kMostImages = 256;
constexpr double kReferenceSignal = 0.25;
constexpr double kFirstInversionMs = 100, kLaterInversionMs = 80;  // of MOLLI

struct Method {
  const char* times;    // by default
  const char* element;  // of sequenceParameters, for each time
  const char* user;     // or a user parameter
};

const std::map<std::string, Method, std::less<>>& methods() {
  static const std::map<std::string, Method, std::less<>> all = {
      {"inversion_recovery", {"30,100,250,500,1000,2000,4000,8000", "TI", ""}},
      {"saturation", {"0,100,200,300,450,600,900,1200,1800,2500,3500", "", "saturation_time_ms"}},
      {"molli", {"", "TI", ""}},
      {"t2prep", {"0,10,25,50,80,120,200", "", "t2prep_ms"}},
      {"spin_echo", {"10,20,30,40,50,60,80,100,120,150,200,300", "TE", ""}},
      {"multi_echo", {"1.5,3.5,5.5,7.5,9.5,11.5,13.5,15.5,20,30,45,60", "TE", ""}},
      {"diffusion", {"0,500,1000", "", ""}},
      {"double_angle", {"60,120", "flipAngle_deg", ""}},
      {"psir", {"300", "TI", ""}}};
  return all;
}

std::vector<double> numbers_of(std::string_view text) {
  std::vector<double> numbers;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find(','), text.size());
    double value = 0;
    const auto [stop, error] = std::from_chars(text.data(), text.data() + end, value);
    if (error != std::errc() || stop != text.data() + end || !(value >= 0) || !std::isfinite(value))
      throw UsageError(
          fmt::format("--times is a list as 100,200,400 of numbers from 0 on; '{}' is none", text.substr(0, end)));
    numbers.push_back(value);
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return numbers;
}

/// The numbers of 5(3)3: images, beats of recovery, images, ...
std::vector<int> beats_of(const std::string& scheme) {
  std::vector<int> beats;
  const char* at = scheme.data();
  const char* const end = at + scheme.size();
  const auto wrong = [&] {
    return UsageError(
        fmt::format("--scheme is as 5(3)3 or 3(3)3(3)5: images after an inversion, beats of recovery in "
                    "parentheses; '{}' is not",
                    scheme));
  };
  for (bool rest = false; at != end; rest = !rest) {
    if (rest && *at++ != '(') throw wrong();
    int count = 0;
    const auto [stop, error] = std::from_chars(at, end, count);
    if (error != std::errc() || count < 1 || count > 50) throw wrong();
    at = stop;
    if (rest && (at == end || *at++ != ')' || at == end)) throw wrong();
    beats.push_back(count);
  }
  if (beats.empty()) throw wrong();
  return beats;
}

/// The images of MOLLI: times since their inversions, and signals.
struct Molli {
  Molli(const SimulateOptions& o)
      : beats(beats_of(o.mapping.scheme)),
        beat_ms(60000 / o.heart_rate),
        efficiency(o.mapping.efficiency),
        readout{.flip_radians = o.mapping.flip_deg * std::numbers::pi / 180} {
    for (std::size_t g = 0; g < beats.size(); g += 2)
      for (int i = 0; i < beats[g]; ++i) times.push_back(first_ms(g / 2) + i * beat_ms);
    const double least = readout.before_ms() + readout.after_ms() + first_ms(beats.size() / 2);
    if (beat_ms < least)
      throw UsageError(
          fmt::format("--mapping molli: a beat of {:.0f} ms is too short for a readout and an inversion, "
                      "{:.0f} ms: give a lower --heart-rate",
                      beat_ms, least));
  }

  double first_ms(std::size_t inversion) const {
    return kFirstInversionMs + kLaterInversionMs * static_cast<double>(inversion);
  }

  std::vector<double> signals(const Tissue& tissue) const {
    std::vector<double> all;
    Magnetization m(tissue.t1_ms, tissue.t2_ms);
    for (std::size_t g = 0; g < beats.size(); g += 2) {
      m.invert(efficiency);
      m.relax(first_ms(g / 2) - readout.before_ms());
      for (int i = 0; i < beats[g]; ++i) {
        if (i > 0) m.relax(beat_ms - readout.after_ms() - readout.before_ms());
        all.push_back(readout.play(m));
      }
      // The next inversion comes before the beat after the pause.
      if (g + 2 < beats.size()) m.relax((beats[g + 1] + 1) * beat_ms - readout.after_ms() - first_ms(g / 2 + 1));
    }
    return all;
  }

  std::vector<int> beats;
  double beat_ms, efficiency;
  BalancedReadout readout;
  std::vector<double> times;
};

Signal signal_of(const std::string& method, double time, double efficiency) {
  if (method == "inversion_recovery" || method == "psir")
    return [=](const Tissue& t) { return 1 - (1 + efficiency) * std::exp(-time / t.t1_ms); };
  if (method == "saturation")
    return [=](const Tissue& t) { return time == 0 ? 1 : 1 - efficiency * std::exp(-time / t.t1_ms); };
  if (method == "diffusion") return [=](const Tissue& t) { return std::exp(-time * t.adc_mm2_per_s); };
  if (method == "double_angle") return [=](const Tissue& t) { return std::sin(t.b1 * time * std::numbers::pi / 180); };
  if (method == "multi_echo")
    return [=](const Tissue& t) {
      return std::polar(std::exp(-time / t.t2star_ms), 2e-3 * std::numbers::pi * t.b0_hz * time);
    };
  return [=](const Tissue& t) { return std::exp(-time / t.t2_ms); };
}

}  // namespace

Weightings weightings_of(const SimulateOptions& o) {
  const MappingOptions& given = o.mapping;
  const auto method = methods().find(given.method);
  if (method == methods().end()) {
    std::string known;
    for (const auto& [name, unused] : methods()) known += (known.empty() ? "" : ", ") + name;
    throw UsageError(fmt::format("unknown --mapping '{}'; use one of {}", given.method, known));
  }
  const std::vector<Tissue> vials = tissues(given.vials);
  Weightings out;
  std::vector<double> times = numbers_of(given.times.empty() ? method->second.times : given.times);
  if (given.method == "molli") {
    if (!given.times.empty()) throw UsageError("--mapping molli has the times of its --scheme: leave out --times");
    const Molli molli(o);
    times = molli.times;
    out.signals.assign(times.size(), {});
    for (const Tissue& tissue : vials) {
      const std::vector<double> all = molli.signals(tissue);
      for (std::size_t i = 0; i < all.size(); ++i) out.signals[i].emplace_back(all[i]);
    }
  }
  if (times.empty() || times.size() > kMostImages)
    throw UsageError(fmt::format("--mapping {}: {} --times; give 1 to {}", given.method, times.size(), kMostImages));
  std::string diffusion;
  const auto add = [&](double time) {
    const Signal signal = signal_of(given.method, time, given.efficiency);
    out.signals.emplace_back();
    for (const Tissue& tissue : vials) out.signals.back().push_back(signal(tissue));
  };
  for (const double time : times) {
    if (given.method != "molli" && given.method != "diffusion") add(time);
    if (*method->second.element) out.sequence += fmt::format("<{0}>{1}</{0}>", method->second.element, time);
    if (*method->second.user)
      out.user += fmt::format("<userParameterDouble><name>{}</name><value>{}</value></userParameterDouble>",
                              method->second.user, time);
    for (int axis = 0; axis < (given.method == "diffusion" ? (time == 0 ? 1 : 3) : 0); ++axis) {
      add(time);
      const auto along = [&](int a) { return time > 0 && axis == a ? 1 : 0; };
      diffusion += fmt::format(
          "<diffusion><gradientDirection><rl>{}</rl><ap>{}</ap><fh>{}</fh></gradientDirection><bvalue>{}</bvalue>"
          "</diffusion>",
          along(0), along(1), along(2), time);
    }
  }
  if (given.method == "molli") out.sequence += fmt::format("<flipAngle_deg>{}</flipAngle_deg>", given.flip_deg);
  if (given.method == "psir") out.signals.emplace_back(vials.size(), kReferenceSignal);
  if (!diffusion.empty()) out.sequence += "<diffusionDimension>set</diffusionDimension>" + diffusion;
  if (!out.user.empty()) out.user = "  <userParameters>" + out.user + "</userParameters>\n";
  out.echoes = given.method == "spin_echo" || given.method == "multi_echo";
  return out;
}

}  // namespace echotrain::client
