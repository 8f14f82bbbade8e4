-- init.lua - torch.trainer: trains modules, by the names of Lightning:
--
--    local trainer = torch.trainer
--    local module = trainer.Learner(model, torch.nn.CrossEntropyLoss(), {lr = 1e-3})
--    trainer.Trainer({max_epochs = 3}):fit(module, train_loader, val_loader)
--
-- Counts of what is done (epochs, steps) begin with 0, as in Lightning; numbers of batches, data
-- loaders and optimizers are positions and begin with 1.

require "tlua" -- defines the core's modules for `require`
local lazy = require "tlua.lazy"

return lazy.load({}, lazy.modules("tlua.trainer", {
   Trainer = "Trainer",
   Module = "Module",
   Learner = "Learner",
   DataModule = "DataModule",
   FSDPStrategy = "FSDPStrategy",
   Callback = "Callback",
   ModelCheckpoint = "ModelCheckpoint",
   EarlyStopping = "EarlyStopping",
   StochasticWeightAveraging = "StochasticWeightAveraging",
   callbacks = [[LearningRateMonitor GradientAccumulationScheduler Timer ProgressBar
      ModelSummary]],
   loggers = "CSVLogger TensorBoardLogger MLFlowLogger WandbLogger",
   tuner = "lr_find scale_batch_size",
   command = "_fit",
}))
