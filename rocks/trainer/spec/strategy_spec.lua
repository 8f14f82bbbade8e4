-- Tests trainings whose parameters are sharded over ranks. A single process that trains on the whole batches gives the
-- reference values.

local torch = require "tlua"
local trainer = require "tlua.trainer"
local shell = require "spec.support.shell"

-- This program trains with the strategy arg[1], and prints the weights of the checkpoint in the folder arg[2].
local PROGRAM <const> = [==[
local torch = require "tlua"
local trainer, nn, dist = torch.trainer, torch.nn, torch.distributed
local kind, folder = arg[1], arg[2]
torch.set_num_threads(1)

local Net = torch.class("Net", trainer.Module)
function Net:__init() self.a, self.b = nn.Linear(4, 8), nn.Linear(8, 1) end
function Net:forward(x) return self.b(self.a(x):tanh()) end
function Net:configure_model()
   if not kind:find "tp" then return end
   local tp = dist.tensor.parallel
   tp.parallelize_module(self, self.device_mesh.tp, {a = tp.ColwiseParallel(), b = tp.RowwiseParallel()})
end
function Net:training_step(batch)
   local loss = nn.functional.mse_loss(self(batch[1]), batch[2])
   self:log("loss", loss, {on_epoch = true, sync_dist = true})
   return loss
end
function Net:validation_step(batch)
   self:log("val_loss", nn.functional.mse_loss(self(batch[1]), batch[2]), {sync_dist = true})
end
function Net:configure_optimizers() return torch.optim.AdamW(self:parameters(), {lr = 0.05}) end

local function mesh(shape, ...)
   dist.init_process_group()
   return dist.init_device_mesh("cpu", shape, {mesh_dim_names = {...}})
end
local kinds = {
   alone = function() return "auto" end, fsdp = function() return "fsdp" end,
   blocks = function() return trainer.FSDPStrategy {auto_wrap_policy = {nn.Linear}} end,
   sharded = function()
      return trainer.FSDPStrategy {state_dict_type = "sharded", reshard_after_forward = false,
         auto_wrap_policy = function(part) return torch.isinstance(part, nn.Linear) end}
   end,
   mesh = function() return mesh({4}, "dp") end, replicas = function() return mesh({2, 2}, "copy", "shard") end,
   tp = function() return mesh({2, 2}, "dp", "tp") end, only_tp = function() return mesh({4}, "tp") end,
}
torch.manual_seed(1)
local net = Net()
local x = torch.randn(16, 4)
local set = torch.data.TensorDataset(x, x:sum(2, {keepdim = true}))
local saves = trainer.ModelCheckpoint {dirpath = folder}
local run = trainer.Trainer {max_epochs = 2, strategy = kinds[kind](), logger = false, gradient_clip_val = 0.5,
   accumulate_grad_batches = 2, enable_model_summary = false, callbacks = {saves}}
local batch = 8 // run.data_shares
run:fit(net, torch.data.DataLoader(set, {batch_size = batch}), torch.data.DataLoader(set, {batch_size = batch}))
if run.global_rank == 0 then
   local file <close> = assert(io.open(folder .. "/result", "w"))
   local metrics = run.callback_metrics
   file:write(("%s\n%.6f %.6f\n"):format(saves.best_model_path, torch.as_tensor(metrics.val_loss):item(),
      torch.as_tensor(metrics.loss):item()))
end
]==]

local Net = torch.class("Net", trainer.Module)
function Net:__init() self.a, self.b = torch.nn.Linear(4, 8), torch.nn.Linear(8, 1) end

local function train(kind, ranks)
   return shell.with_folder(function(folder)
      local file <close> = assert(io.open(folder .. "/program.lua", "w"))
      file:write(PROGRAM)
      file:close()
      local start = ranks == 1 and shell.start()
         or ("%s run -n %d"):format(shell.quote(shell.build .. "/tlua"), ranks)
      shell.ok(("%s %s/program.lua %s %s"):format(start, folder, kind, folder))
      local path, metrics = shell.read(folder .. "/result"):match "^(.-)\n(.*)$"
      return Net:load_from_checkpoint(path):state_dict(), metrics
   end)
end

describe("a training with shards", function()
   local whole, metrics

   lazy_setup(function() whole, metrics = train("alone", 1) end)

   for _, kind in ipairs {"fsdp", "blocks", "sharded", "mesh", "replicas", "tp", "only_tp"} do
      it("gives the weights of one process, and a checkpoint that one process loads: " .. kind, function()
         local state, logged = train(kind, 4)
         for name, tensor in pairs(whole) do
            assert.is_true(torch.allclose(state[name], tensor, {atol = 1e-5}), name)
         end
         local function numbers(text)
            local a, b = text:match "(%S+) (%S+)"
            return tonumber(a), tonumber(b)
         end
         local a, b = numbers(metrics)
         local c, d = numbers(logged)
         assert.near(a, c, 1e-4)
         assert.near(b, d, 1e-4)
      end)
   end

   it("refuses strategies that do not exist", function()
      for _, row in ipairs {
         {{strategy = "fdsp"},
            'strategy: expected "auto", "ddp", "fsdp", a trainer.FSDPStrategy, or a mesh, got "fdsp"'},
         {{strategy = {}}, "strategy: expected \"auto\""},
      } do
         assert.raises(row[2], function() trainer.Trainer(row[1]) end)
      end
      assert.raises('state_dict_type: expected "full" or "sharded", got "parts"',
         function() trainer.FSDPStrategy {state_dict_type = "parts"} end)
      assert.raises("auto_wrap_policy[1]: expected a class of modules, got ",
         function() trainer.FSDPStrategy {auto_wrap_policy = {torch.optim.Adam}} end)
      assert.raises("auto_wrap_policy: expected a class of modules, a list of them, or a function of a module",
         function() trainer.FSDPStrategy {auto_wrap_policy = 3} end)
      assert.raises("unknown option auto_wrap; did you mean auto_wrap_policy?",
         function() trainer.FSDPStrategy {auto_wrap = {}} end)
   end)
end)
