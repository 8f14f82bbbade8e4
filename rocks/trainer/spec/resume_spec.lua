-- Tests that a training that is killed and resumed gives the same bits as one that is not killed.

local torch = require "tlua"
local trainer = require "tlua.trainer"
local shell = require "spec.support.shell"
local killed = dofile "rocks/trainer/spec/killed.lua"
local nn = torch.nn

local Net = torch.class("Net", trainer.Module)

function Net:__init(options)
   self.layers = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Dropout(0.3), nn.Linear(8, 1))
   rawset(self, "options", options)
   rawset(self, "trace", {})
end

function Net:training_step(batch)
   local loss = nn.functional.mse_loss(self.layers(batch[1] + 0.1 * torch.randn(1)), batch[2])
   self:log("loss", loss, {on_epoch = true})
   return loss
end

function Net:validation_step(batch)
   self:log("val_loss", nn.functional.mse_loss(self.layers(batch[1]), batch[2]) + torch.rand(1) / 10)
end

function Net:configure_optimizers()
   local optimizer = torch.optim.AdamW(self:parameters(), {lr = 0.05})
   local schedules = torch.optim.lr_scheduler
   if self.options.plateau then
      return {optimizer = optimizer, lr_scheduler = {
         scheduler = schedules.ReduceLROnPlateau(optimizer, {patience = 0}), monitor = "val_loss"}}
   end
   return {optimizer = optimizer, lr_scheduler = {scheduler = schedules.CosineAnnealingLR(optimizer, 40),
      interval = "step"}}
end

local function loaders(options)
   local generator = torch.Generator():manual_seed(3)
   local x = torch.randn(26, 4, {generator = generator})
   local set = torch.data.TensorDataset(x, x:sum(2, {keepdim = true}))
   return torch.data.DataLoader(set, {batch_size = 4, shuffle = true, num_workers = options.workers or 0}),
      torch.data.DataLoader(set, {batch_size = 8})
end

-- Trains a net, and raises an error in a callback after `dies` batches. Returns the net's state and logs as a text.
local function train(folder, options, dies, resumes)
   torch.manual_seed(resumes and 99 or 1)
   local batches = 0
   local killer = {on_train_batch_end = function()
      batches = batches + 1
      if batches == dies then error("killed", 0) end
   end}
   if options.late then killer = {on_validation_end = killer.on_train_batch_end} end
   local list = {killer, trainer.ModelCheckpoint {dirpath = folder, save_top_k = -1,
      every_n_train_steps = options.every or 1}}
   if options.epochs then
      list[2] = trainer.ModelCheckpoint {dirpath = folder, monitor = "val_loss", save_top_k = 2, save_last = true}
   end
   if options.stops then list[#list + 1] = trainer.EarlyStopping("val_loss", {patience = 2}) end
   if options.swa then
      list[#list + 1] = trainer.StochasticWeightAveraging(0.01, {swa_epoch_start = 1, annealing_epochs = 2})
   end
   if options.schedule then list[#list + 1] = trainer.GradientAccumulationScheduler {[1] = 3} end
   local run = trainer.Trainer {max_epochs = 4, logger = false, callbacks = list, enable_progress_bar = false,
      enable_model_summary = false, accumulate_grad_batches = options.accumulate or 1, precision = options.precision,
      gradient_clip_val = 0.5, val_check_interval = options.val or 1.0}
   local module = Net(options)
   local train_loader, val_loader = loaders(options)
   local ok, message = pcall(run.fit, run, module, train_loader, val_loader, {ckpt_path = resumes and "last" or nil})
   if not ok and message ~= "killed" then error(message, 0) end
   local parts = {}
   for name, tensor in pairs(module:state_dict()) do
      parts[#parts + 1] = name .. ":" .. table.concat(tensor:double():view(-1):tolist(), ",")
   end
   table.sort(parts)
   local metrics = {}
   for name, value in pairs(run.callback_metrics) do
      metrics[#metrics + 1] = ("%s=%.17g"):format(name, torch.is_tensor(value) and value:item() or value)
   end
   table.sort(metrics)
   return table.concat(parts, "\n") .. table.concat(metrics, "\n") .. run.global_step, ok
end

local cases <const> = {
   ["with every step saved"] = {},
   ["with a save every third step"] = {every = 3},
   ["with saves at validations, of the best and the last"] = {epochs = true, plateau = true},
   ["with validations within an epoch"] = {val = 3},
   ["with gradients of several batches"] = {accumulate = 2},
   ["with a growing number of batches for a step"] = {schedule = true},
   ["with a loader's workers"] = {workers = 2, every = 2},
   ["in bfloat16"] = {precision = "bf16-mixed"},
   ["in float16 with a scaler"] = {precision = "16-mixed"},
   ["with averaged weights"] = {swa = true},
   ["with a training that stops early"] = {stops = true, epochs = true},
}

describe("a training that was killed and resumed", function()
   for name, options in pairs(cases) do
      it("has the same bits " .. name, function()
         local whole = shell.with_folder(function(folder) return (train(folder, options)) end)
         local count = 0 -- this number counts the trainings that had saved a checkpoint before they were killed
         for _, dies in ipairs(options.workers and {5, 9} or {3, 7, 8, 20}) do
            shell.with_folder(function(folder)
               local _, ended = train(folder, options, dies)
               local saved = shell.ok("ls " .. folder) ~= ""
               if saved and not ended then
                  assert.equal(whole, (train(folder, options, nil, true)), "killed after batch " .. dies)
                  count = count + 1
               end
            end)
         end
         assert.is_true(count >= 2)
      end)
   end

   it("has the same bits if it dies between a validation and the next batch", function()
      local options = {val = 3, late = true}
      local whole = shell.with_folder(function(folder) return (train(folder, options)) end)
      for _, dies in ipairs {2, 4, 5} do
         shell.with_folder(function(folder)
            train(folder, options, dies)
            assert.equal(whole, (train(folder, options, nil, true)))
         end)
      end
   end)
end)

describe("a process killed by a signal", function()
   local places <const> = {{"on_train_batch_end", 3}, {"on_save_checkpoint", 5}, {"on_validation_end", 2}}
   -- Strategies differ only in how they write a checkpoint. So only the first strategy is killed at all places.
   for _, row in ipairs {{1, "auto", places}, {4, "ddp", {places[1]}}, {4, "fsdp", {places[2]}},
                         {4, "sharded", {places[2], places[3]}}} do
      local ranks, strategy, at = table.unpack(row)
      it(("goes on with the same bits: %d ranks, strategy %s"):format(ranks, strategy), function()
         shell.with_folder(function(folder)
            local run = killed.runner(folder, ranks, strategy)
            local whole = run("whole")
            assert.matches("^steps 9\n", whole)
            for i, place in ipairs(at) do
               local name = "killed" .. i
               assert.is_nil(run(name, {hook = place[1], call = place[2], rank = ranks - 1}))
               assert.equal(whole, run(name, nil, "resumes"))
            end
         end)
      end)
   end
end)

describe("the newest checkpoint", function()
   -- Returns the number of bytes that this process has read with system calls.
   local function bytes_read()
      local file <close> = io.open("/proc/self/io", "r")
      return file and tonumber(file:read "a":match "rchar: (%d+)")
   end

   it("is found without reading weights, past files that cannot be read", function()
      if not bytes_read() then pending "needs /proc/self/io" end
      shell.with_folder(function(folder)
         local Big = torch.class("Big", trainer.Module)
         function Big:__init() self.layer = nn.Linear(1000, 1000) end
         function Big:training_step(batch) return self.layer(batch):mean() end
         function Big:configure_optimizers() return torch.optim.SGD(self:parameters(), {lr = 0.1}) end
         local saves = trainer.ModelCheckpoint {dirpath = folder, save_top_k = -1, every_n_train_steps = 1}
         local run = trainer.Trainer {max_epochs = 1, logger = false, callbacks = {saves}, enable_progress_bar = false,
            enable_model_summary = false}
         run:fit(Big(), torch.data.DataLoader(torch.ones(3, 1000), {batch_size = 1}))
         local path = folder .. "/epoch=0-step=3.ckpt"
         local text = shell.read(path)
         assert.is_true(#text > 4000000)
         for name, content in pairs {["epoch=0-step=4"] = text:sub(1, #text // 2), other = "", ["no"] = "{}"} do
            local file <close> = assert(io.open(("%s/%s.ckpt"):format(folder, name), "wb"))
            file:write(content)
         end
         torch.save({weights = torch.ones(2)}, folder .. "/weights.ckpt")
         local before = bytes_read()
         assert.equal(path, saves:find_last(run))
         assert.is_true(bytes_read() - before < 1000000)
      end)
   end)
end)
