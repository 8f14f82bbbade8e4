-- Tests that a training can continue with another number of ranks from the end of an epoch. The ranks share each batch,
-- so a training whose number of ranks does not change gives the reference values.

local shell = require "spec.support.shell"

local PROGRAM <const> = [==[
local torch = require "tlua"
local trainer, nn = torch.trainer, torch.nn
local kind, folder, epochs, steps, resumes = table.unpack(arg)
torch.set_num_threads(1)
torch.manual_seed(1)

local Net = torch.class("Net", trainer.Module)
function Net:__init() self.a, self.b = nn.Linear(3, 8), nn.Linear(8, 1) end
function Net:forward(x) return self.b(self.a(x):tanh()) end
function Net:training_step(batch)
   local loss = nn.functional.mse_loss(self(batch[1]), batch[2])
   for _, name in ipairs {"mean", "sum", "min", "max"} do
      self:log(name, loss, {reduce_fx = name, sync_dist = true, on_step = false, on_epoch = true})
   end
   return loss
end
function Net:validation_step(batch)
   self:log("val", nn.functional.mse_loss(self(batch[1]), batch[2]), {sync_dist = true})
end
function Net:configure_optimizers()
   local optimizer = torch.optim.AdamW(self:parameters(), {lr = 0.05})
   local schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 16)
   return {optimizer = optimizer, lr_scheduler = {scheduler = schedule, interval = "step"}}
end

local x = torch.randn(64, 3, {generator = torch.Generator():manual_seed(2)})
local set = torch.data.TensorDataset(x, x:sum(2, {keepdim = true}))
local strategy = kind
if kind == "sharded" then strategy = trainer.FSDPStrategy {state_dict_type = "sharded"} end
local function number(value) return torch.is_tensor(value) and value:item() or value end
-- `ends` has the numbers of epochs that have ended, and `logged` the values that the second epoch has logged.
local ends, logged = {}, ""
local seen = {on_train_epoch_end = function(_, run) ends[#ends + 1] = run.current_epoch end}
function seen.on_train_epoch_start(_, run)
   if run.current_epoch ~= 2 then return end
   for _, name in ipairs {"mean", "sum", "min", "max"} do
      logged = logged .. ("%.9g "):format(number(run.callback_metrics[name]))
   end
end
local saves = trainer.ModelCheckpoint {dirpath = folder, save_top_k = 0, save_last = true,
   every_n_train_steps = tonumber(steps) > 0 and 1 or nil}
local run = trainer.Trainer {max_epochs = tonumber(epochs), max_steps = tonumber(steps) > 0 and tonumber(steps) or -1,
   enable_model_summary = false, logger = false, strategy = strategy, callbacks = {seen, saves}}
local module = Net()
local size = 16 // run.world_size
run:fit(module, torch.data.DataLoader(set, {batch_size = size}), torch.data.DataLoader(set, {batch_size = size}),
   {ckpt_path = resumes == "resumes" and "last" or nil})
local state = torch.distributed.checkpoint.get_model_state_dict(module, {full_state_dict = true})
if run.global_rank == 0 then
   local file <close> = assert(io.open(folder .. "/result", "w"))
   file:write(("%d %s\n"):format(run.global_step, table.concat(ends, ",")))
   for _, name in ipairs {"mean", "val"} do file:write(("%.9g "):format(number(run.callback_metrics[name]))) end
   file:write(logged)
   for _, name in ipairs {"a.weight", "a.bias", "b.weight", "b.bias"} do
      file:write(table.concat(state[name]:double():view(-1):tolist(), " "), " ")
   end
end
]==]

-- Calls fn(train). train(kind, ranks, folder, epochs, steps, resumes) returns the first line of the result, the numbers
-- after it, and the program's output.
local function with_program(fn)
   return shell.with_folder(function(folder)
      local file <close> = assert(io.open(folder .. "/program.lua", "w"))
      file:write(PROGRAM)
      file:close()
      return fn(function(kind, ranks, name, epochs, steps, resumes)
         local start = ranks == 1 and shell.start()
            or ("%s run -n %d"):format(shell.quote(shell.build .. "/tlua"), ranks)
         local own = folder .. "/" .. name
         os.remove(own .. "/result")
         local said, status = shell.run(("%s %s/program.lua %s %s %d %d %s 2>&1"):format(start, folder, kind, own,
            epochs, steps or 0, resumes and "resumes" or "begins"))
         if status ~= 0 then return nil, nil, said end
         local first, rest = shell.read(own .. "/result"):match "^(.-)\n(.*)$"
         local numbers = {}
         for text in rest:gmatch "%S+" do numbers[#numbers + 1] = tonumber(text) end
         return first, numbers, said
      end)
   end)
end

describe("a training", function()
   for _, kind in ipairs {"ddp", "fsdp", "sharded"} do
      it("goes on from an epoch's end with another number of ranks: " .. kind, function()
         with_program(function(train)
            local first, whole, said = train(kind, 4, "whole", 4)
            assert.equal("16 0,1,2,3", first, said)
            for _, row in ipairs {{4, 2}, {4, 1}, {1, 2}} do
               local name = ("from%dto%d"):format(row[1], row[2])
               assert.equal("8 0,1", (train(kind, row[1], name, 2)))
               local line, numbers, text = train(kind, row[2], name, 4, 0, true)
               assert.equal("16 1,2,3", line, name .. "\n" .. tostring(text))
               assert.equal(#whole, #numbers)
               -- The ranks sum float32 gradients in another order, so the values are only close.
               for i, value in ipairs(whole) do
                  -- Numbers 4 to 6 are sums and extremes. A single rank takes them over whole batches, so its values
                  -- differ.
                  if row[1] == 4 or i < 4 or i > 6 then assert.near(value, numbers[i], 1e-5, name) end
               end
            end
         end)
      end)
   end

   it("names both numbers of ranks if it was saved within an epoch", function()
      with_program(function(train)
         assert.equal("5 0,1", (train("ddp", 2, "within", 4, 5)))
         local first, _, said = train("ddp", 1, "within", 4, 0, true)
         assert.is_nil(first)
         assert.matches("ckpt_path: the checkpoint was saved by 2 ranks within an epoch, after batch 1, and there is 1 "
            .. "now; only a checkpoint from an epoch's end goes on", said)
      end)
   end)
end)
