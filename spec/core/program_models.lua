-- program_models.lua - exports models and training steps into a folder for program_test.c: programs, their inputs, and
-- the results that the programs must reproduce bit for bit:
--
--    tlua spec/core/program_models.lua FOLDER

local torch = require "tlua"
local nn, optim = torch.nn, torch.optim

local dir = arg[1]
torch.manual_seed(1)
local function put(path, x)
   local file = assert(io.open(dir .. '/' .. path, 'wb'))
   for _, v in ipairs(x:flatten():tolist()) do file:write(string.pack('<f', v)) end
   file:close()
end
local function export(name, model, x, options)
   model:eval()
   torch.export(model, {x}, options):save(dir .. '/' .. name .. '.tlp')
   put(name .. '.in', x)
   put(name .. '.out', (model(x)))
end
export('mlp', nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 10)), torch.randn(3, 64))
export('digits', nn.Sequential(nn.Unflatten(2, {1, 8, 8}), nn.Conv2d(1, 16, 3, {padding = 1}), nn.BatchNorm2d(16),
   nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(16, 32, 3, {padding = 1}), nn.ReLU(), nn.MaxPool2d(2),
   nn.Flatten(), nn.Dropout(0.2), nn.Linear(128, 10)), torch.randn(4, 64), {dynamic = {input = {1}}})
export('lstm', nn.LSTM(8, 16, {num_layers = 2, batch_first = true}), torch.randn(2, 7, 8))
export('transformer', nn.TransformerEncoder(nn.TransformerEncoderLayer(32, 4,
   {dim_feedforward = 64, batch_first = true}), 2), torch.randn(2, 9, 32))
-- This model computes with integers that are products of the sizes of its input.
local tokens = nn.Linear(4, 4)
function tokens.forward(self, x)
   local y = x:reshape(x:size(1) * x:size(2), 4)
   return nn.functional.linear(y, self.weight, self.bias):view(x:size(1), x:size(2) * 4) * (x:size(1) * x:size(1))
end
export('products', tokens, torch.randn(3, 5, 4), {dynamic = {x = {1, 2}}})
do
   local x = torch.randn(4, 4, 4) -- program_test.c contains these sizes, too
   put('products.in', x)
   put('products.out', tokens(x))
end

-- The first model has a branch inside a branch; the second has a loop inside a branch, and a branch inside the loop.
-- Their functions also use tensors from outside.
local branches = nn.Sequential(nn.Linear(6, 16), nn.Linear(6, 6))
function branches.forward(self, x)
   local y = x:tanh()
   local function wide(u) return self[1](u):relu():sum(2) * y:sum(2) end
   local function narrow(u)
      local function positive(v) return self[2](v):exp():sum(2) end
      local function negative(v) return (v * y):sum(2) - 1 end
      return torch.cond(u[1][1]:gt(0), positive, negative, {u})
   end
   return torch.cond(x:sum():gt(0), wide, narrow, {x}) + y:sum(2)
end
export('branches', branches, torch.rand(3, 6))
local loops = nn.Linear(4, 4)
function loops.forward(self, x)
   local shift = x:sin()
   local function below(u, n) return u:sum():lt(50):logical_and(n:lt(6)) end
   local function grow(u, n)
      local function double(v) return v * 2 + shift end
      local function layer(v) return nn.functional.linear(v, self.weight, self.bias):abs() end
      return torch.cond((n % 3):eq(0), double, layer, {u}), n + 1
   end
   local function inner(u) return (torch.while_loop(below, grow, {u, torch.tensor(0)})) end
   return torch.cond(x:sum():gt(-100), inner, torch.neg, {x}) + shift
end
export('loops', loops, torch.rand(3, 4))

-- Exports a training step of a model, together with the losses of 20 steps and the results of the trained model.
local function train(name, make, x, optimizer_of, schedule_of)
   local y = torch.randint(1, 5, {x:size(1)})
   local function step_of(model)
      local optimizer = optimizer_of(model:parameters())
      local scheduler = schedule_of(optimizer)
      return function(t)
         optimizer:zero_grad()
         local loss = nn.functional.cross_entropy(model(t), y)
         loss:backward()
         optimizer:step()
         scheduler:step()
         return loss:detach()
      end, {model = model, optimizer = optimizer, scheduler = scheduler, steps = 60}
   end
   local model, twin = make(), make()
   twin:load_state_dict(model:state_dict())
   local step, parts = step_of(model)
   local program = torch.export_step(step, {x}, parts)
   torch.manual_seed(9)
   program:save(dir .. '/' .. name .. '.tlp')
   torch.export(model:eval(), {x}):save(dir .. '/' .. name .. '_eval.tlp')
   local eager, losses = step_of(twin), {}
   torch.manual_seed(9)
   for i = 1, 20 do losses[i] = eager(x):item() end
   put(name .. '.in', x)
   put(name .. '.out', torch.tensor(losses))
   put(name .. '_eval.in', x)
   put(name .. '_eval.out', twin:eval()(x))
end
train('train_mlp', function() return nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Dropout(0.3),
   nn.Linear(16, 4)) end, torch.randn(12, 8),
   function(p) return optim.SGD(p, {lr = 0.05, momentum = 0.9}) end,
   function(o) return optim.lr_scheduler.StepLR(o, 5) end)
train('train_convnet', function() return nn.Sequential(nn.Conv2d(1, 4, 3, {padding = 1}), nn.BatchNorm2d(4),
   nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(4, 8, 3), nn.ReLU(), nn.Flatten(), nn.Dropout(0.3), nn.Linear(32, 4)) end,
   torch.randn(12, 1, 8, 8), function(p) return optim.AdamW(p, {lr = 0.01}) end,
   function(o) return optim.lr_scheduler.CosineAnnealingLR(o, {T_max = 20}) end)

-- Exports three training steps of a generator and a discriminator, which take turns. Two optimizers have the
-- generator's parameters. The step of the generator leaves gradients in the discriminator.
local function gan()
   torch.manual_seed(3)
   local D = nn.Sequential(nn.Conv2d(1, 4, 4, {stride = 2, padding = 1, bias = false}), nn.BatchNorm2d(4),
      nn.LeakyReLU(0.2), nn.Flatten(), nn.Linear(16, 1))
   local G = nn.Sequential(nn.Conv2d(1, 4, 3, {padding = 1, bias = false}), nn.BatchNorm2d(4), nn.ReLU(),
      nn.Conv2d(4, 1, 3, {padding = 1}), nn.Tanh())
   local criterion = nn.BCEWithLogitsLoss()
   local function of(model, lr) return optim.Adam(model:parameters(), {lr = lr, betas = {0.5, 0.999}}) end
   local for_judge, for_maker, for_copy = of(D, 0.01), of(G, 0.01), of(G, 0.02)
   local steps = {}
   function steps.judge(x)
      D:zero_grad()
      local labels = torch.ones(x:size(1), 1)
      local real = criterion(D(x), labels)
      real:backward()
      labels:fill_(0)
      local fake = criterion(D(G(x):detach()), labels)
      fake:backward()
      for_judge:step()
      return (real + fake):detach()
   end
   function steps.maker(x)
      G:zero_grad()
      local loss = criterion(D(G(x)), torch.ones(x:size(1), 1))
      loss:backward()
      for_maker:step()
      return loss:detach()
   end
   function steps.copy(x)
      for_copy:zero_grad()
      local loss = nn.functional.mse_loss(G(x), x)
      loss:backward()
      for_copy:step()
      return loss:detach()
   end
   return steps, {judge = for_judge, maker = for_maker, copy = for_copy}, {D, G}
end
local eager, steps, optimizers, models = gan(), gan()
local x, losses = torch.randn(6, 1, 4, 4), {judge = {}, maker = {}, copy = {}}
for _, name in ipairs {'judge', 'maker', 'copy'} do
   torch.export_step(steps[name], {x}, {model = models, optimizer = optimizers[name]}):save(
      ('%s/gan_%s.tlp'):format(dir, name))
end
for i = 1, 20 do
   for _, name in ipairs {'judge', 'maker', 'copy'} do losses[name][i] = eager[name](x):item() end
end
for name, list in pairs(losses) do
   put(('gan_%s.in'):format(name), x)
   put(('gan_%s.out'):format(name), torch.tensor(list))
end
