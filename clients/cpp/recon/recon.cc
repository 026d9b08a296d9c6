#include "clients/cpp/recon/recon.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <exception>
#include <map>
#include <memory>
#include <mutex>
#include <ostream>
#include <stdexcept>

#include "clients/cpp/base/interruption.h"
#include "clients/cpp/base/pending_dataset.h"
#include "clients/cpp/base/pipeline_files.h"
#include "clients/cpp/base/usage_error.h"
#include "clients/cpp/images/image_report.h"
#include "clients/cpp/recon/recon_parts.h"
#include "clients/cpp/recon/save_after.h"
#include "config/branch_spec.h"
#include "gadgets/engine/chain/chain_plan.h"
#include "gadgets/engine/ranked_pipeline.h"
#include "gadgets/shared/program/step_settings.h"
#include "protocol/data/header.h"
#include "protocol/data/pluralized.h"
#include "protocol/files/asset_folder.h"
#include "protocol/files/dataset.h"

namespace echotrain::client {
namespace {

// Images come from any thread; they are written by the one that also reads the input, because the HDF5 library must not
// be used by two threads at once.
class Inbox {
 public:
  void put(protocol::Image&& image) {
    const std::lock_guard lock(mutex_);
    images_.push_back(std::move(image));
  }
  std::vector<protocol::Image> take() {
    const std::lock_guard lock(mutex_);
    return std::exchange(images_, {});
  }

 private:
  std::mutex mutex_;
  std::vector<protocol::Image> images_;
};

class Output {
 public:
  Output(const ReconOptions& o, const std::string& xml)
      : report_(o.truth ? read_truths(o.truth->empty() ? o.input : std::filesystem::path(*o.truth), o.group)
                        : std::vector<StoredArray>(),
                o.png),
        file_(o.output) {
    if (!xml.empty()) file_.writer().header_xml(xml);
  }

  void drain(Inbox& inbox) {
    for (const protocol::Image& image : inbox.take()) {
      file_.writer().append(image);
      file_.keep();
      ++images_;
      try {
        report_.add(image);
      } catch (...) {
        if (!report_failure_) report_failure_ = std::current_exception();  // images come first
      }
    }
  }
  void finish() {
    file_.keep();
    file_.writer().flush();
    if (report_failure_) std::rethrow_exception(report_failure_);
    report_.finish();
  }
  const ImageReport& report() const { return report_; }
  std::size_t images() const { return images_; }

 private:
  ImageReport report_;
  PendingDataset file_;
  std::size_t images_ = 0;
  std::exception_ptr report_failure_;
};

void check_names(const ReconOptions& o, const config::PipelineSpec& spec) {
  for (const auto& [gadget, file] : o.save_after) {
    const std::string& name = gadget;
    const auto has = [&](const std::vector<config::GadgetSpec>& chain) {
      const auto all = config::gadgets_in(chain);
      return std::any_of(all.begin(), all.end(), [&](const auto& each) { return each.name == name; });
    };
    if (!has(spec.gadgets) && !has(spec.accelerated))
      throw UsageError("--save-after " + name + ": the pipeline has no gadget of that name");
  }
}

// Refuses data that do not fit the pipeline.
void refuse_misfit(const ReconOptions& o, const protocol::ScanReader& reader, const PipelinePlan& plan) {
  std::size_t images = 0;
  for (const std::string& series : reader.image_series()) images += reader.images(series);
  if (const std::string reason = plan.misfit(reader.acquisitions(), images); !reason.empty())
    throw std::runtime_error(fmt::format("{}: {}", o.input.string(), reason));
}

// The savers of --save-after, whose names are checked already; several gadgets may share a file.
class Savers {
 public:
  /// open() opens the files, before the first item.
  Savers(const ReconOptions& o, RankedPipeline& pipeline) : options_(o) {
    for (std::size_t i = 0; i < o.save_after.size(); ++i)
      pipeline.tap(o.save_after[i].first, [this, i](const Item& item) { savers_.at(i)->save(item); });
  }
  void open(numerics::Context& context) {
    for (const auto& [gadget, file] : options_.save_after) {
      auto& writer = files_[file];
      if (!writer) writer = std::make_unique<protocol::DatasetWriter>(file);
      savers_.push_back(std::make_unique<ItemSaver>(gadget, context, *writer));
      names_.push_back(gadget);
    }
  }
  void finish(std::ostream& err) {
    for (std::size_t i = 0; i < savers_.size(); ++i) {
      savers_[i]->finish();
      if (savers_[i]->saved() == 0)
        err << "warning: --save-after " << names_[i] << ": the gadget gave nothing that can be saved\n";
    }
  }

 private:
  const ReconOptions& options_;
  std::map<std::string, std::unique_ptr<protocol::DatasetWriter>> files_;
  std::vector<std::unique_ptr<ItemSaver>> savers_;
  std::vector<std::string> names_;
};

// Pushes the whole file through the pipeline. Beside readouts, images count where the pipeline or a branch takes them.
class Feeder {
 public:
  Feeder(const ReconOptions& o, const protocol::ScanReader& reader, const protocol::Header& header,
         const PipelinePlan& plan, std::ostream& err)
      : options_(o),
        reader_(reader),
        with_images_(plan.spec().input == config::Input::images || plan.chain_for(header).chain().takes_messages()),
        filter_(header, err) {}

  template <class AfterPush>
  void feed(RankedPipeline& pipeline, const AfterPush& after_push) {
    std::vector<protocol::Acquisition> batch;
    const std::size_t readouts = reader_.acquisitions();
    for (std::size_t i = 0; i < readouts; ++i) {
      protocol::Acquisition readout = reader_.acquisition(i);
      if (filter_.keeps(readout)) batch.push_back(std::move(readout));
      if (batch.size() == static_cast<std::size_t>(options_.batch) || (i + 1 == readouts && !batch.empty())) {
        pipeline.push(std::exchange(batch, {}));
        after_push(i + 1);
      }
    }
    for (std::size_t i = 0; i < reader_.waveforms(); ++i) pipeline.push(reader_.waveform(i));
    if (readouts == 0 || with_images_) {
      for (const auto& series : reader_.image_series()) {
        for (std::size_t i = 0; i < reader_.images(series); ++i) {
          pipeline.push(reader_.image(series, i));
          after_push(readouts);
        }
      }
    }
    filter_.report();
  }

 private:
  const ReconOptions& options_;
  const protocol::ScanReader& reader_;
  const bool with_images_;
  ReadoutFilter filter_;
};

// A run of its own for what the scan after it may use, which stays in the context's stores. The scan goes on without it
// where the pipeline does not take it.
void prepare(const ReconOptions& o, const std::shared_ptr<const PipelinePlan>& plan, numerics::Context& context,
             const Preparation& preparation, std::ostream& err) {
  const protocol::ScanReader& reader = *preparation.reader;
  announce(o.input, preparation, err);
  try {
    const auto header = protocol::parse_header(reader.header_xml(), {});
    if (!header) throw std::runtime_error(header.error().message);
    PipelineSink sink;
    sink.image = [](protocol::Image&&, const ImageTimes&) {};
    sink.text = [&](protocol::Level level, const std::string& text) {
      err << fmt::format("{}: {}: {}\n", preparation.name, level_name(level), text);
    };
    const protocol::AssetFolder assets(o.assets);
    RankedPipeline pipeline(o.followers, plan, context, std::move(sink),
                            [&](const std::string& name) { return assets.images(name); });
    pipeline.start(*header);
    Feeder(o, reader, *header, *plan, err).feed(pipeline, [](std::size_t) {});
    pipeline.finish(End::complete);
    pipeline.wait();
  } catch (const std::exception& error) {
    err << "warning: the pipeline did not take it, and the scan goes on without: " << error.what() << '\n';
  }
}

}  // namespace

void recon(const ReconOptions& o, std::ostream& out, std::ostream& err) {
  const auto plan = PipelinePlan::check(find_pipeline(o.config, o.pipelines));
  check_names(o, plan->spec());
  const numerics::Backend backend = choose_backend(plan->spec(), o.backend);
  const auto resources = std::make_shared<numerics::Resources>(o.resources);
  resources->get<StepSettings>() = step_settings(o.steps);
  const InterruptionStop stop;
  numerics::ContextOptions on;
  on.stop_token = stop.token();
  numerics::Context context(backend, resources, on);

  const auto opened = open_scan_file(o.input, o.group, o.choice, err);
  const protocol::ScanReader& reader = *opened;
  const std::string xml = reader.header_xml();
  // A file of images may lack a header; FIRE clients then send this text.
  const auto header = protocol::parse_header(xml.empty() && reader.acquisitions() == 0 ? "Dummy XML header" : xml, {});
  if (!header)
    throw std::runtime_error(fmt::format("{}: {}: {}", o.input.string(), header.error().code, header.error().message));

  refuse_misfit(o, reader, plan->chain_for(*header));
  for (const Preparation& before : open_preparations(o.input, o.choice, err)) {
    if (o.followers == nullptr)
      prepare(o, plan, context, before, err);
    else
      err << "warning: several ranks keep nothing for later scans, and the scan goes on without\n";
  }

  Inbox inbox;
  const auto begin = std::chrono::steady_clock::now();
  PipelineSink sink;
  sink.image = [&inbox](protocol::Image&& image, const ImageTimes&) { inbox.put(std::move(image)); };
  Progress progress(o.wanted(err), reader.acquisitions(), err);
  sink.text = [&err, &progress](protocol::Level level, const std::string& text) {
    progress.interrupt();
    err << level_name(level) << ": " << text << '\n';
  };
  const protocol::AssetFolder assets(o.assets);
  RankedPipeline pipeline(o.followers, plan, context, std::move(sink),
                          [&](const std::string& name) { return assets.images(name); });
  Savers savers(o, pipeline);
  pipeline.start(*header);
  Output output(o, xml);
  savers.open(context);
  try {
    Feeder(o, reader, *header, *plan, err).feed(pipeline, [&](std::size_t readouts) {
      output.drain(inbox);
      progress.show(readouts, output.images(), false);
      context.check_stop();
    });
    pipeline.finish(End::complete);
    pipeline.wait();
  } catch (const numerics::Stopped&) {
    output.drain(inbox);
    throw Interrupted(fmt::format("interrupted; {} before that{}", protocol::pluralized(output.images(), "image"),
                                  output.images() > 0 ? ": " + o.output.string() : ""));
  } catch (...) {
    output.drain(inbox);
    throw;
  }
  output.drain(inbox);
  progress.show(reader.acquisitions(), output.images(), true);
  output.finish();
  savers.finish(err);

  const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - begin;
  const PipelineCounts& counts = pipeline.counts();
  out << fmt::format("{}: {}, {}, {} in {:.3f} s on {}\n", plan->spec().name,
                     protocol::pluralized(counts.readouts, "readout"), protocol::pluralized(counts.frames, "frame"),
                     protocol::pluralized(output.images(), "image"), elapsed.count(), place_name(context, o.followers));
  if (output.images() == 0) err << "warning: the pipeline gave no image; 'echotrain info' shows what the file holds\n";
  if (const auto error = output.report().median_error())
    out << fmt::format("NRMSE             median {:.4g} against the truth\n", *error);
}

}  // namespace echotrain::client
