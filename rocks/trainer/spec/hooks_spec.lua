-- Tests that a trainer calls the hooks of callbacks, modules and data modules in Lightning's order.

local torch = require "tlua"
local trainer = require "tlua.trainer"
local hooks = require "tlua.trainer.hooks"
local nn = torch.nn

local recorded = dofile "rocks/trainer/spec/fixtures/hooks.lua"

local log

-- Replaces methods of a class by methods that record their calls.
local function spy(cls, names, who, default)
   for name in pairs(names) do
      local old = cls[name]
      if name ~= "state_dict" and name ~= "load_state_dict" and name ~= "on_exception" then
         cls[name] = function(self, ...)
            log[#log + 1] = who .. name
            if old then return old(self, ...) end
            return default(self, name, ...)
         end
      end
   end
end

local function model_class()
   local Model = torch.class("Model", trainer.Module)
   function Model:__init() self.layer = nn.Linear(4, 1) end
   function Model:training_step(batch)
      local loss = self.layer(batch):sum()
      self:log("loss", loss)
      return loss
   end
   function Model:validation_step(batch) self:log("val_loss", self.layer(batch):sum()) end
   function Model:test_step(batch) self:log("test_loss", self.layer(batch):sum()) end
   function Model:predict_step(batch) return self.layer(batch) end
   function Model:configure_optimizers()
      local optimizer = torch.optim.SGD(self:parameters(), {lr = 0.01})
      return {optimizer}, {torch.optim.lr_scheduler.StepLR(optimizer, 1)}
   end
   local names = {}
   for name in pairs(hooks.module) do names[name] = not name:find "_dataloader$" or nil end
   spy(Model, names, "module.", function(self, name, batch)
      if name:find "model_eval$" then self:eval() end
      if name:find "model_train$" then self:train() end
      if name == "on_validation_model_zero_grad" then self:zero_grad() end
      if name:find "batch_transfer$" then return batch end
   end)
   return Model
end

local Data = torch.class("Data", trainer.DataModule)
for _, kind in ipairs {"train", "val", "test", "predict"} do
   Data[kind .. "_dataloader"] = function()
      return torch.data.DataLoader(torch.ones(6, 4), {batch_size = 2})
   end
end
spy(Data, {prepare_data = true, setup = true, teardown = true, train_dataloader = true,
   val_dataloader = true, test_dataloader = true, predict_dataloader = true}, "data.", function() end)

local Spy = torch.class("Spy", trainer.Callback)
spy(Spy, hooks.callback, "callback.", function() end)

local function run(options)
   options.logger, options.enable_progress_bar, options.enable_model_summary = false, false, false
   options.enable_checkpointing, options.callbacks = false, {Spy()}
   return trainer.Trainer(options)
end

local cases <const> = {
   fit = function(Model)
      run({max_epochs = 2, limit_train_batches = 2, limit_val_batches = 1}):fit(Model(), Data())
   end,
   fit_accumulate = function(Model)
      run({max_epochs = 1, num_sanity_val_steps = 0, accumulate_grad_batches = 2,
         gradient_clip_val = 1.0}):fit(Model(), Data())
   end,
   fit_interval = function(Model)
      run({max_epochs = 1, num_sanity_val_steps = 0, val_check_interval = 2, limit_val_batches = 1})
         :fit(Model(), Data())
   end,
   fit_no_val = function(Model)
      run({max_steps = 3, limit_val_batches = 0, limit_train_batches = 2}):fit(Model(), Data())
   end,
   validate = function(Model)
      run({limit_val_batches = 2}):validate(Model(), {datamodule = Data(), verbose = false})
   end,
   test = function(Model)
      run({limit_test_batches = 2}):test(Model(), {datamodule = Data(), verbose = false})
   end,
   predict = function(Model)
      run({limit_predict_batches = 2}):predict(Model(), {datamodule = Data()})
   end,
   save_and_resume = function(Model)
      local path = os.tmpname()
      local first = run {max_epochs = 1, limit_val_batches = 0, limit_train_batches = 1}
      local model = Model()
      first:fit(model, Data())
      first:save_checkpoint(path)
      run({max_epochs = 2, limit_val_batches = 0, limit_train_batches = 1})
         :fit(Model(), Data(), {ckpt_path = path})
      os.remove(path)
   end,
   fit_nil = function(Model)
      function Model:training_step() log[#log + 1] = "module.training_step" end
      run({max_epochs = 1, limit_val_batches = 0, limit_train_batches = 1}):fit(Model(), Data())
   end,
}

describe("the hooks of", function()
   for name, expected in pairs(recorded) do
      it(name .. " come in Lightning's order", function()
         log = {}
         cases[name](model_class())
         local list = {}
         for line in expected:gmatch "[^\n]+" do list[#list + 1] = line end
         assert.equal(table.concat(list, "\n"), table.concat(log, "\n"))
      end)
   end
end)
