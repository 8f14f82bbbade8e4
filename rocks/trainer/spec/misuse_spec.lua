-- Tests that errors within a training reach the caller, and that the trainer can be used again afterwards.

local torch = require "tlua"
local trainer = require "tlua.trainer"
local shell = require "spec.support.shell"
local nn = torch.nn

local x = torch.randn(16, 2, {generator = torch.Generator():manual_seed(1)})

local function loader(n)
   local part = x:narrow(1, 1, n)
   return torch.data.DataLoader(torch.data.TensorDataset(part, part:sum(2, {keepdim = true})), {batch_size = 4})
end

local function learner() return trainer.Learner(nn.Linear(2, 1), nn.MSELoss(), {lr = 0.1}) end

local function make(callback, options)
   local all = {max_epochs = 2, logger = false, enable_checkpointing = false, enable_progress_bar = false,
      enable_model_summary = false, callbacks = {callback}}
   for name, value in pairs(options or {}) do all[name] = value end
   return trainer.Trainer(all)
end

-- Returns the error that fn raises.
local function error_of(fn) return select(2, pcall(fn)) end

-- Runs a program that trains with a callback, and returns the program's output. `callback` is the Lua code of the
-- callback, and `rest` is Lua code with further options of the trainer.
local function said_by(callback, rest)
   return shell.with_folder(function(folder)
      local file <close> = assert(io.open(folder .. "/program.lua", "w"))
      file:write(([[
         local torch = require "tlua"
         local trainer, nn = torch.trainer, torch.nn
         local function loader(n)
            local x = torch.ones(n, 2)
            return torch.data.DataLoader(torch.data.TensorDataset(x, x), {batch_size = 4})
         end
         local run = trainer.Trainer {max_epochs = 1, logger = false, enable_checkpointing = false,
            enable_progress_bar = false, enable_model_summary = false, callbacks = {%s},
            num_sanity_val_steps = 0}
         local learner = trainer.Learner(nn.Linear(2, 2), nn.MSELoss())
         %s]]):format(callback, rest))
      file:close()
      return (shell.run(("%s %s/program.lua 2>&1"):format(shell.start(), folder)))
   end)
end

describe("an error in a hook", function()
   for _, hook in ipairs {"setup", "on_fit_start", "on_sanity_check_start", "on_train_start", "on_train_epoch_start",
      "on_train_batch_start", "on_before_zero_grad", "on_after_backward", "on_train_batch_end", "on_validation_start",
      "on_validation_batch_end", "on_validation_end", "on_train_epoch_end", "on_train_end", "on_fit_end",
      "teardown"} do
      it("reaches the caller, and the trainer can fit again: " .. hook, function()
         local armed, told = true, nil
         local run = make {[hook] = function() if armed then error("boom", 0) end end,
            on_exception = function(_, _, _, message) told = message end}
         local module = learner()
         local message = error_of(function() run:fit(module, loader(16), loader(8)) end)
         assert.equal("boom", message)
         assert.equal("boom", told)
         assert.is_nil(rawget(module, "trainer"))
         assert.is_true(torch.is_grad_enabled())
         armed = false
         run:fit(module, loader(16), loader(8))
         assert.equal(2, run.current_epoch)
         assert.equal(8, run.global_step)
      end)
   end

   it("is passed to the DataModule, and -1 of a callback also counts if the module returns another value", function()
      local Data, told = torch.class("MisuseData", trainer.DataModule), nil
      function Data:train_dataloader() return loader(16) end
      function Data:on_exception(message) told = message end
      local Net = torch.class("MisuseNet", trainer.Learner)
      function Net:on_train_batch_start() return true end
      local run = make {on_train_epoch_end = function() error("boom", 0) end,
         on_train_batch_start = function() return -1 end}
      local net = Net(nn.Linear(2, 1), nn.MSELoss(), {lr = 0.1})
      assert.equal("boom", error_of(function() run:fit(net, {datamodule = Data()}) end))
      assert.equal("boom", told)
      assert.equal(0, run.global_step)
   end)

   it("is not replaced by one of on_exception", function()
      local said = said_by([[{on_train_start = function() error("first", 0) end,
         on_exception = function() error("second", 0) end}]],
         [[print(pcall(run.fit, run, learner, loader(8)))
         print(rawget(learner, "trainer"))]])
      assert.equal("trainer: table.on_exception: second\nfalse\tfirst\nnil\n", said)
   end)

   it("keeps the type of a thrown table", function()
      local thrown = {}
      local run = make {on_train_start = function() error(thrown) end}
      local message = error_of(function() run:fit(learner(), loader(16)) end)
      assert.equal(thrown, message)
   end)
end)

describe("a trainer that is running", function()
   it("refuses to fit, validate, test or predict in a hook", function()
      for _, stage in ipairs {"fit", "validate", "test", "predict"} do
         local run = make {on_train_epoch_end = function(_, self, module) self[stage](self, module, loader(8)) end}
         local message = error_of(function() run:fit(learner(), loader(16)) end)
         assert.matches(("misuse_spec.lua:%%d+: trainer.Trainer.%s: this trainer is running fit; a hook needs another "
            .. "trainer and another module$"):format(stage), message)
      end
   end)

   it("goes on when a hook has left by a coroutine's yield", function()
      local run = make {on_train_batch_end = function() coroutine.yield() end}
      local step, count = coroutine.wrap(function()
         run:fit(learner(), loader(16))
         return "done"
      end), 0
      while step() ~= "done" do count = count + 1 end
      assert.equal(8, count)
   end)
end)

describe("data", function()
   it("may have fewer batches in a later epoch", function()
      local list = {}
      for i = 1, 4 do list[i] = {x:narrow(1, 1, 4), x:narrow(1, 1, 4):sum(2, {keepdim = true})} end
      local run = make {on_train_epoch_end = function() list[3], list[4] = nil, nil end}
      run:fit(learner(), list)
      assert.equal(6, run.global_step)
      run = make {on_train_epoch_end = function() list[1], list[2] = nil, nil end}
      assert.raises("trainer: the training loader gave no batch", function() run:fit(learner(), list) end)
   end)

   it("without a batch for the validation are told of", function()
      local line <const> = "trainer: the %s gives no batches, so it has no values\n"
      assert.equal(line:format "validation loader" .. "1\n", said_by("",
         "run:fit(learner, loader(8), loader(0)) print(run.current_epoch)"))
      assert.equal(line:format "test loader 2", said_by("",
         "run:test(learner, {loader(4), loader(0)}, {verbose = false})"))
   end)

   it("with NaN stop the training if EarlyStopping watches the loss", function()
      local y = x:clone()
      y[1][1] = 0 / 0
      local run = make(trainer.EarlyStopping("train_loss", {check_on_train_epoch_end = true}), {max_epochs = 9})
      run:fit(learner(), torch.data.DataLoader(torch.data.TensorDataset(y, y:sum(2, {keepdim = true})),
         {batch_size = 4}))
      assert.equal(1, run.current_epoch)
   end)
end)

describe("an option that is NaN", function()
   for _, name in ipairs {"max_time", "gradient_clip_val", "val_check_interval", "limit_train_batches"} do
      it("is refused: " .. name, function()
         assert.raises(name .. ": expected ", function() make(nil, {[name] = 0 / 0}) end)
      end)
   end
end)
