-- init.lua - torch.utils: helpers for programs. Each helper is loaded when it is first used.

local lazy = require "tlua.lazy"

return lazy.load({}, {
   options = "tlua.utils.options",
   Progress = "tlua.utils.Progress",
   ConfusionMatrix = "tlua.utils.ConfusionMatrix",
   plot = "tlua.plot",
   metrics = "tlua.utils.metrics",
   json = "tlua.utils.json",
   suggest = "tlua.utils.suggest",
   deterministic = "tlua.utils.deterministic",
   data = "tlua.data",
   checkpoint = "tlua.utils.checkpoint",
   flop_counter = "tlua.utils.flop_counter",
   leaks = "tlua.utils.leaks",
   check_finite = "tlua.utils.check_finite",
   benchmark = "tlua.utils.benchmark",
   tensorboard = "tlua.tensorboard",
   mlflow = "tlua.mlflow",
   wandb = "tlua.wandb",
})
