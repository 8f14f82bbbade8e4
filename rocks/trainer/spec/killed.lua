-- killed.lua - runs trainings in processes that are killed by a signal, for resume_spec.lua and kills.lua.

local M = {}

-- This program trains with dropout, batch norm, clipping, accumulated gradients, a schedule, a loader with workers, and
-- validation. It prints the number of steps, the metrics and all weights.
local PROGRAM <const> = [==[
local torch = require "tlua"
local trainer, nn = torch.trainer, torch.nn
local kind, folder, resumes, hook, call, rank = table.unpack(arg)
torch.set_num_threads(1)
torch.manual_seed(resumes == "resumes" and 5 or 1)

local Net = torch.class("Net", trainer.Module)
function Net:__init()
   self.a = nn.Sequential(nn.Linear(3, 8), nn.BatchNorm1d(8), nn.Dropout(0.2), nn.Tanh())
   self.b = nn.Linear(8, 1)
end
function Net:forward(x) return self.b(self.a(x)) end
function Net:training_step(batch)
   local loss = nn.functional.mse_loss(self(batch[1] + 0.1 * torch.randn(1)), batch[2])
   self:log("loss", loss, {on_epoch = true, sync_dist = true})
   return loss
end
function Net:validation_step(batch)
   self:log("val", nn.functional.mse_loss(self(batch[1]), batch[2]), {sync_dist = true})
end
function Net:configure_optimizers()
   local optimizer = torch.optim.AdamW(self:parameters(), {lr = 0.05})
   local schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 12)
   return {optimizer = optimizer, lr_scheduler = {scheduler = schedule, interval = "step"}}
end

local x = torch.randn(88, 3, {generator = torch.Generator():manual_seed(2)})
local set = torch.data.TensorDataset(x, x:sum(2, {keepdim = true}))
local strategy = kind
if kind == "sharded" then
   strategy = trainer.FSDPStrategy {state_dict_type = "sharded", auto_wrap_policy = {nn.Sequential}}
end
local count = 0
local killer = {}
killer[hook or "on_train_start"] = function(_, run)
   count = count + 1
   if count == tonumber(call) and run.global_rank == tonumber(rank) then
      -- The parent of this shell is the process that trains, so the shell kills it.
      os.execute(hook == "on_save_checkpoint" and call % 2 == 0 and "(sleep 0.002; kill -9 $PPID) &"
         or "kill -9 $PPID")
   end
end
local saves = trainer.ModelCheckpoint {dirpath = folder, every_n_train_steps = 1, save_last = true}
local run = trainer.Trainer {max_epochs = 3, enable_model_summary = false, logger = false,
   strategy = strategy, gradient_clip_val = 0.5, accumulate_grad_batches = 2, callbacks = {killer, saves}}
local size = run.world_size
local module = Net()
run:fit(module, torch.data.DataLoader(set, {batch_size = 16 // size, shuffle = true, num_workers = 1}),
   torch.data.DataLoader(set, {batch_size = 8}), {ckpt_path = resumes == "resumes" and "last" or nil})
local state = torch.distributed.checkpoint.get_model_state_dict(module, {full_state_dict = true})
if run.global_rank == 0 then
   local names = {}
   for name in pairs(state) do names[#names + 1] = name end
   table.sort(names)
   local file <close> = assert(io.open(folder .. "/result", "w"))
   local function number(value) return torch.is_tensor(value) and value:item() or value end
   file:write(("steps %d\n%.17g %.17g\n"):format(run.global_step, number(run.callback_metrics.val),
      number(run.callback_metrics.loss)))
   for _, name in ipairs(names) do
      local parts = {}
      for i, value in ipairs(state[name]:double():view(-1):tolist()) do parts[i] = ("%.17g"):format(value) end
      file:write(name, " ", table.concat(parts, " "), "\n")
   end
end
]==]

local function read(path)
   local file <close> = io.open(path, "rb")
   return file and file:read "a"
end

--- Returns a function run(name, kill, resumes), which trains in the folder `name`. `kill` = {hook, call, rank} says in
--- which call of a hook, and on which rank, the training is killed. run() returns the result of the training as a text.
--- If the training was killed, it returns nil and the output.
function M.runner(folder, ranks, strategy)
   local shell = require "spec.support.shell"
   local path = folder .. "/program.lua"
   local file <close> = assert(io.open(path, "w"))
   file:write(PROGRAM)
   file:close()
   local start = ranks == 1 and shell.start()
      or ("%s run -n %d"):format(shell.quote(shell.build .. "/tlua"), ranks)
   return function(name, kill, resumes)
      kill = kill or {hook = "", call = 0, rank = 0}
      local own = folder .. "/" .. name
      os.remove(own .. "/result")
      local words = kill.hook ~= "" and ("%s %d %d"):format(kill.hook, kill.call, kill.rank) or ""
      local said, status = shell.run(("%s %s %s %s %s %s 2>&1"):format(start, path, strategy, own,
         resumes or "begins", words))
      local result = read(own .. "/result")
      if status == 0 and result then return result end
      if kill.hook == "" then error(said, 0) end
      return nil, said
   end
end

return M
