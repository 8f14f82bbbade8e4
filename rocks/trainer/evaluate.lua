-- evaluate.lua - the loops of validation, test and prediction.

local torch = require "tlua"
local Results = require "tlua.trainer.results"
local notice = require "tlua.utils.notice"

local M = {}

--- Returns an iterator over the batches of a loader. The loader is an object with the method
--- `iter`, a list of batches, or a function that returns an iterator.
function M.iterate(loader)
   if type(loader) == "function" then return loader() end
   if loader.iter then return loader:iter() end
   local i = 0
   return function()
      i = i + 1
      return loader[i]
   end
end

--- Finds, for each hook that moves batches, the object whose method is called. It is the data
--- module if it has the method, or else the module. Without such an object, the field is nil.
function M.prepare(self)
   local module, data = self.module, self.datamodule
   local function owner(name)
      local found = data and data[name] and data or module
      return found[name] and found or nil
   end
   self.before_transfer = owner "on_before_batch_transfer"
   self.mover = owner "transfer_batch_to_device"
   self.after_transfer = owner "on_after_batch_transfer"
end

--- Moves a batch to the device, by the hooks of the data module or the module. `loader` is the
--- number of the data loader, from 1. Returns the moved batch.
function M.transfer(self, batch, loader)
   if self.before_transfer then
      batch = self.before_transfer:on_before_batch_transfer(batch, loader)
   end
   batch = self.mover:transfer_batch_to_device(batch, self.device, loader)
   if self.after_transfer then
      batch = self.after_transfer:on_after_batch_transfer(batch, loader)
   end
   return batch
end

-- Records the training mode of `module` and of all modules within it. Returns a function that
-- restores these modes.
local function keep_modes(module)
   local modes = {}
   for _, part in ipairs(module:modules()) do modes[part] = part.training end
   return function()
      for part, mode in pairs(modes) do part.training = mode end
   end
end

local function mode_hook(module, name, default)
   if module[name] then module[name](module) else default() end
end

local function run_loader(self, kind, loader, i, limit, outputs)
   local module, fire = self.module, self.fire
   local name, many = kind .. "_step", #self.eval_loaders > 1
   local step = module[name]
   -- The parameters are sharded, so the step is called through `wrapped`, whose forward gathers
   -- them.
   if self.shards then
      step = function(_, ...) return self.wrapped(name, ...) end
   end
   local epoch <close> = setmetatable({next = M.iterate(loader)}, {__close = function(epoch)
      if type(epoch.next) == "table" and epoch.next.close then epoch.next:close() end
   end})
   local told = false
   for number = 1, limit do
      local values = table.pack(epoch.next())
      if values[1] == nil then break end
      local batch = values.n > 1 and values or values[1]
      self.current.batch = nil
      batch = M.transfer(self, batch, i)
      self.current.batch = batch
      fire(self, "on_" .. kind .. "_batch_start", batch, number, i)
      local result = self:_autocast(function()
         if many then return step(module, batch, number, i) end
         return step(module, batch, number)
      end)
      fire(self, "on_" .. kind .. "_batch_end", result, batch, number, i)
      if outputs then -- the entry of a batch without a result stays nil
         outputs[number], outputs.n = result, number
         if result == nil and not told then
            told = true
            notice("trainer: %s.predict_step returned nil for batch %d; the places of such "
               .. "batches in the results stay empty", torch.type(module), number)
         end
      end
   end
   self.current.batch = nil
end

local function metrics_of(self, results, list)
   local values = {}
   for i, one in ipairs(results) do
      list[i] = {}
      one:each_epoch(self, function(name, value, entry, forked)
         self.callback_metrics[name] = value
         if entry.prog_bar then self.progress_bar_metrics[name] = value end
         if entry.logger and (forked or not entry.forked) then values[name] = value end
         list[i][name] = torch.is_tensor(value) and value:item() or value
      end)
   end
   return values
end

--- Runs the loop of a validation, a test or a prediction (kind: "validation", "test" or "predict").
--- Returns a list with the metrics of each loader. For "predict", returns the list of results or,
--- with several loaders, a list of such lists.
function M.run(self, kind, loaders, limits)
   local module, fire = self.module, self.fire
   local hook = function(name, ...) fire(self, "on_" .. kind .. name, ...) end
   local outer_stage, outer_logged, outer_place = self.log_stage, self.logged, self.log_place
   self.eval_loaders = loaders
   local in_fit = kind == "validation" and self.stage == "fit"
   -- This call clears the gradients. It is left out while gradients are being accumulated over
   -- batches, because these gradients are still needed.
   if in_fit and not self.sanity_checking and self.progress.accumulated == 0 then
      mode_hook(module, "on_validation_model_zero_grad", function() module:zero_grad() end)
   end
   local restore = keep_modes(module)
   mode_hook(module, "on_" .. kind .. "_model_eval", function() module:eval() end)
   local results, outputs = {}, {}
   for i = 1, #loaders do
      results[i] = Results(#loaders > 1 and "/dataloader_idx_" .. i or "")
      outputs[i] = {n = 0}
   end
   torch.no_grad(function()
      self.log_stage, self.log_place = nil, "on_" .. kind .. "_start"
      hook "_start"
      self.log_stage, self.logged = kind ~= "predict" and "eval" or nil, results[1]
      self.log_place = "a predict loop"
      hook "_epoch_start"
      for i, loader in ipairs(loaders) do
         self.logged = results[i]
         run_loader(self, kind, loader, i, limits[i], kind == "predict" and outputs[i])
      end
      self.logged = results[1]
      hook "_epoch_end"
      local list = {}
      local values = metrics_of(self, results, list)
      self.log_stage = nil
      if not self.sanity_checking then
         if next(values) then
            if in_fit then values.epoch = self.current_epoch end
            self:_log_metrics(values)
         end
      end
      results.metrics = list
      hook "_end"
   end)
   if kind ~= "predict" then
      mode_hook(module, "on_" .. kind .. "_model_train", restore)
   else
      restore()
   end
   self.log_stage, self.logged, self.log_place = outer_stage, outer_logged, outer_place
   if kind == "predict" then return #loaders > 1 and outputs or outputs[1] end
   return results.metrics
end

return M
