-- Saves a general checkpoint as PyTorch does, and continues the training from it:
--
--    tlua examples/ported/checkpoints.lua
--
-- PyTorch reads the file by torch.load(path, weights_only=True), and its model, optimizer, schedule
-- and scaler load their parts by load_state_dict. tlua also reads files that PyTorch has written.
local torch = require "tlua"
local nn, optim = torch.nn, torch.optim

local parser = torch.utils.options("checkpoints.lua", "Saves a checkpoint and trains on from it.")
parser:option("--epochs", "passes over the data in all", 8)
parser:option("--path", "the checkpoint's file; by default a temporary one that is removed", "")
local opt = parser:parse()
local path = opt.path ~= "" and opt.path or os.tmpname() .. ".pt"

torch.manual_seed(1)
local inputs = torch.randn(256, 8)
local targets = inputs:sum(2, {keepdim = true}):sin()

local function new_run()
   local run = {epoch = 0}
   run.model = nn.Sequential(nn.Linear(8, 32), nn.Tanh(), nn.Linear(32, 1))
   run.optimizer = optim.Adam(run.model:parameters(), {lr = 1e-2})
   run.scheduler = optim.lr_scheduler.StepLR(run.optimizer, {step_size = 3, gamma = 0.5})
   run.scaler = torch.amp.GradScaler("cpu", {init_scale = 1024})
   return run
end

-- Trains until the run has reached `last_epoch`. Returns the last loss.
local function train(run, last_epoch)
   local loss
   while run.epoch < last_epoch do
      local order = torch.randperm(#inputs)
      for batch = 1, #inputs, 32 do
         local rows = order[{{batch, batch + 31}}]
         run.optimizer:zero_grad()
         loss = nn.functional.mse_loss(run.model(inputs[rows]), targets[rows])
         run.scaler:scale(loss):backward()
         run.scaler:step(run.optimizer)
         run.scaler:update()
      end
      run.scheduler:step()
      run.epoch = run.epoch + 1
   end
   return loss:item()
end

local function save(run)
   torch.save({
      epoch = run.epoch,
      model_state_dict = run.model:state_dict {names = "pytorch"},
      optimizer_state_dict = run.optimizer:state_dict {names = "pytorch"},
      scheduler_state_dict = run.scheduler:state_dict(),
      scaler_state_dict = run.scaler:state_dict(),
      rng_state = torch.get_rng_state(),
   }, path)
end

local function load_run()
   local run = new_run()
   local checkpoint = torch.load(path, {map_location = "cpu", weights_only = true})
   run.epoch = checkpoint.epoch
   run.model:load_state_dict(checkpoint.model_state_dict, {names = "pytorch"})
   run.optimizer:load_state_dict(checkpoint.optimizer_state_dict)
   run.scheduler:load_state_dict(checkpoint.scheduler_state_dict)
   run.scaler:load_state_dict(checkpoint.scaler_state_dict)
   torch.set_rng_state(checkpoint.rng_state)
   return run
end

local run = new_run()
train(run, opt.epochs // 2)
save(run)
local straight = train(run, opt.epochs)
local continued = train(load_run(), opt.epochs)
print(("loss %.6f without a break, %.6f from the checkpoint"):format(straight, continued))

-- warm start: loads the layers that have the same shapes; all others keep their initial weights
local wider = nn.Sequential(nn.Linear(8, 32), nn.Tanh(), nn.Linear(32, 1), nn.Linear(1, 4))
local missing, unexpected = wider:load_state_dict(torch.load(path).model_state_dict,
   {names = "pytorch", strict = false})
print(("warm start: %d entries missing, %d unexpected"):format(#missing, #unexpected))
if opt.path == "" then os.remove(path) end
