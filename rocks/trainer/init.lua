-- init.lua - torch.trainer: trains modules. It has Lightning's names:
--
--    local trainer = torch.trainer
--    local module = trainer.Learner(model, torch.nn.CrossEntropyLoss(), {lr = 1e-3})
--    trainer.Trainer({max_epochs = 3}):fit(module, train_loader, val_loader)
--
-- Counts of finished epochs and steps begin with 0, as in Lightning. The numbers of batches, data
-- loaders and optimizers are positions and begin with 1.

require "tlua" -- this call loads the core, so that `require` finds its modules
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
