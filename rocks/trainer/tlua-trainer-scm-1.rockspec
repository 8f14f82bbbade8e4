-- cd rocks/trainer && luarocks --lua-version 5.4 make
rockspec_format = "3.0"
package = "tlua-trainer"
version = "scm-1"
source = {url = "git+file://."}
description = {
   summary = "Trains modules with a loop, callbacks and checkpoints by the names of Lightning",
   license = "MIT",
}
dependencies = {"lua ~> 5.4", "tlua"}
build = {
   type = "builtin",
   modules = {
      ["tlua.trainer.Callback"] = "Callback.lua",
      ["tlua.trainer.DataModule"] = "DataModule.lua",
      ["tlua.trainer.EarlyStopping"] = "EarlyStopping.lua",
      ["tlua.trainer.FSDPStrategy"] = "FSDPStrategy.lua",
      ["tlua.trainer.Learner"] = "Learner.lua",
      ["tlua.trainer.ModelCheckpoint"] = "ModelCheckpoint.lua",
      ["tlua.trainer.Module"] = "Module.lua",
      ["tlua.trainer.StochasticWeightAveraging"] = "StochasticWeightAveraging.lua",
      ["tlua.trainer.Trainer"] = "Trainer.lua",
      ["tlua.trainer.callbacks"] = "callbacks.lua",
      ["tlua.trainer.checkpoint"] = "checkpoint.lua",
      ["tlua.trainer.checkpoint_fields"] = "checkpoint_fields.lua",
      ["tlua.trainer.command"] = "command.lua",
      ["tlua.trainer.config"] = "config.lua",
      ["tlua.trainer.dispatch"] = "dispatch.lua",
      ["tlua.trainer.evaluate"] = "evaluate.lua",
      ["tlua.trainer.fit_loop"] = "fit_loop.lua",
      ["tlua.trainer.hooks"] = "hooks.lua",
      ["tlua.trainer"] = "init.lua",
      ["tlua.trainer.loggers"] = "loggers.lua",
      ["tlua.trainer.optimizers"] = "optimizers.lua",
      ["tlua.trainer.ranks"] = "ranks.lua",
      ["tlua.trainer.results"] = "results.lua",
      ["tlua.trainer.setup"] = "setup.lua",
      ["tlua.trainer.strategy"] = "strategy.lua",
      ["tlua.trainer.sweep"] = "sweep.lua",
      ["tlua.trainer.sweep_asha"] = "sweep_asha.lua",
      ["tlua.trainer.sweep_plan"] = "sweep_plan.lua",
      ["tlua.trainer.sweep_report"] = "sweep_report.lua",
      ["tlua.trainer.tuner"] = "tuner.lua",
      ["tlua.trainer.vocabulary"] = "vocabulary.lua",
   },
}
