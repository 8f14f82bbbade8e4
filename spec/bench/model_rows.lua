-- model_rows.lua - rows for whole models (training steps and inference) and for data loaders. Rows have the form of
-- rows.lua, which has the rows for layers and recurrent networks.

local rows = {}

local group

local function row(name, setup, lua, python)
   rows[#rows + 1] = {group = group, name = name, setup = setup, lua = lua, python = python or lua}
end

-- Models ----------------------------------------------------------------------------------------

group = "models"

local digits = {[[
local net = nn.Sequential(nn.Conv2d(1, 32, 3, {padding = 1}), nn.ReLU(),
   nn.Conv2d(32, 64, 3, {padding = 1}), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(),
   nn.Linear(1024, 128), nn.ReLU(), nn.Linear(128, 10))
local one, x, y = torch.randn(1, 1, 8, 8), torch.randn(32, 1, 8, 8), torch.randint(1, 11, {32})
local adam = torch.optim.Adam(net:parameters())]], [[
net = nn.Sequential(nn.Conv2d(1, 32, 3, padding=1), nn.ReLU(),
   nn.Conv2d(32, 64, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(),
   nn.Linear(1024, 128), nn.ReLU(), nn.Linear(128, 10))
one, x, y = torch.randn(1, 1, 8, 8), torch.randn(32, 1, 8, 8), torch.randint(0, 10, (32,))
adam = torch.optim.Adam(net.parameters())]]}

row("digits' convnet, training step of 32, Adam", digits,
   "adam:zero_grad() F.cross_entropy(net(x), y):backward() adam:step()",
   "adam.zero_grad(); F.cross_entropy(net(x), y).backward(); adam.step()")
row("digits' convnet, inference of 1", digits,
   "local _ <close> = torch.inference_mode() local r = net(one)",
   "with torch.inference_mode(): r = net(one)")
row("MLP 64-128-10, inference of 1", {[[
local net = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 10))
local x = torch.randn(1, 64)]], [[
net = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 10))
x = torch.randn(1, 64)]]},
   "local _ <close> = torch.inference_mode() local r = net(x)",
   "with torch.inference_mode(): r = net(x)")

-- The GPT of the following rows has a vocabulary of 65 characters.
local gpt = {[[
local C, H, T, V = 128, 4, 64, 65
local token, place, norm, head = nn.Embedding(V, C), nn.Embedding(T, C), nn.LayerNorm(C),
   nn.Linear(C, V)
local net, blocks = nn.Sequential(token, place, norm, head), {}
for i = 1, 4 do
   blocks[i] = {nn.LayerNorm(C), nn.Linear(C, 3 * C), nn.Linear(C, C), nn.LayerNorm(C),
      nn.Linear(C, 4 * C), nn.Linear(4 * C, C)}
   for _, layer in ipairs(blocks[i]) do net:add(layer) end
end
local x, y, places = torch.randint(1, V + 1, {16, T}), torch.randint(1, V + 1, {16 * T}),
   torch.arange(1, T + 1)
local adam = torch.optim.AdamW(net:parameters())
local function forward()
   local h = token(x) + place(places)
   for _, b in ipairs(blocks) do
      local qkv = b[2](b[1](h)):view(16, T, 3, H, C // H):permute {3, 1, 4, 2, 5}
      local q, k, v = table.unpack(qkv:unbind(1))
      local a = F.scaled_dot_product_attention(q, k, v, {is_causal = true})
      h = h + b[3](a:transpose(2, 3):reshape(16, T, C))
      h = h + b[6](F.gelu(b[5](b[4](h))))
   end
   return head(norm(h)):view(16 * T, V)
end]], [[
C, H, T, V = 128, 4, 64, 65
token, place, norm, head = nn.Embedding(V, C), nn.Embedding(T, C), nn.LayerNorm(C), nn.Linear(C, V)
blocks = [nn.ModuleList([nn.LayerNorm(C), nn.Linear(C, 3 * C), nn.Linear(C, C), nn.LayerNorm(C),
                         nn.Linear(C, 4 * C), nn.Linear(4 * C, C)]) for i in range(4)]
net = nn.ModuleList([token, place, norm, head] + blocks)
x, y, places = torch.randint(0, V, (16, T)), torch.randint(0, V, (16 * T,)), torch.arange(T)
adam = torch.optim.AdamW(net.parameters())
def forward():
    h = token(x) + place(places)
    for b in blocks:
        q, k, v = b[1](b[0](h)).view(16, T, 3, H, C // H).permute(2, 0, 3, 1, 4).unbind(0)
        a = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        h = h + b[2](a.transpose(1, 2).reshape(16, T, C))
        h = h + b[5](F.gelu(b[4](b[3](h))))
    return head(norm(h)).view(16 * T, V)]]}

row("GPT, 4 layers of 128, 16 x 64 tokens, AdamW", gpt,
   "adam:zero_grad() F.cross_entropy(forward(), y):backward() adam:step()",
   "adam.zero_grad(); F.cross_entropy(forward(), y).backward(); adam.step()")
row("the same, autocast to bfloat16", gpt, [[
adam:zero_grad()
local loss
torch.autocast("cpu", {dtype = torch.bfloat16}, function() loss = F.cross_entropy(forward(), y) end)
loss:backward()
adam:step()]], [[
adam.zero_grad()
with torch.autocast("cpu", dtype=torch.bfloat16): loss = F.cross_entropy(forward(), y)
loss.backward()
adam.step()]])

row("ResNet-18, 8 of 64 x 64, SGD", {[[
local function conv(from, to, size, stride, padding)
   return nn.Conv2d(from, to, size, {stride = stride, padding = padding, bias = false})
end
local net, blocks = nn.Sequential(conv(3, 64, 7, 2, 3), nn.BatchNorm2d(64), nn.Linear(512, 1000)), {}
for stage = 1, 4 do
   for i = 1, 2 do
      local to = 32 << stage
      local from = i == 1 and stage > 1 and to // 2 or to
      local stride = from == to and 1 or 2
      local b = {conv(from, to, 3, stride, 1), nn.BatchNorm2d(to), conv(to, to, 3, 1, 1),
         nn.BatchNorm2d(to)}
      if stride == 2 then b[5] = nn.Sequential(conv(from, to, 1, 2, 0), nn.BatchNorm2d(to)) end
      for _, layer in ipairs(b) do net:add(layer) end
      blocks[#blocks + 1] = b
   end
end
local x, y = torch.randn(8, 3, 64, 64), torch.randint(1, 1001, {8})
local sgd = torch.optim.SGD(net:parameters(), {lr = 0.01, momentum = 0.9})
local function forward()
   local h = F.max_pool2d(F.relu(net[2](net[1](x))), 3, 2, 1)
   for _, b in ipairs(blocks) do
      local short = b[5] and b[5](h) or h
      h = F.relu(b[4](b[3](F.relu(b[2](b[1](h))))) + short)
   end
   return net[3](h:mean {3, 4})
end]], [[
def conv(a, b, size, stride, padding):
    return nn.Conv2d(a, b, size, stride=stride, padding=padding, bias=False)
first, blocks = [conv(3, 64, 7, 2, 3), nn.BatchNorm2d(64), nn.Linear(512, 1000)], []
for stage in range(1, 5):
    for i in range(2):
        b = 32 << stage
        a = b // 2 if i == 0 and stage > 1 else b
        stride = 1 if a == b else 2
        blocks.append(nn.ModuleList([conv(a, b, 3, stride, 1), nn.BatchNorm2d(b), conv(b, b, 3, 1, 1),
                                     nn.BatchNorm2d(b)]))
        if stride == 2:
            blocks[-1].append(nn.Sequential(conv(a, b, 1, 2, 0), nn.BatchNorm2d(b)))
net = nn.ModuleList(first + blocks)
x, y = torch.randn(8, 3, 64, 64), torch.randint(0, 1000, (8,))
sgd = torch.optim.SGD(net.parameters(), lr=0.01, momentum=0.9)
def forward():
    h = F.max_pool2d(F.relu(first[1](first[0](x))), 3, 2, 1)
    for b in blocks:
        short = b[4](h) if len(b) == 5 else h
        h = F.relu(b[3](b[2](F.relu(b[1](b[0](h))))) + short)
    return first[2](h.mean((2, 3)))]]},
   "sgd:zero_grad() F.cross_entropy(forward(), y):backward() sgd:step()",
   "sgd.zero_grad(); F.cross_entropy(forward(), y).backward(); sgd.step()")

-- Rows for per-example gradients of a convolutional network with 64 examples: one row uses vmap, the other a loop over
-- the examples. The ratio of the two shows how much time vmap saves.
local convolutional = {[[
local nn, F, func = torch.nn, torch.nn.functional, torch.func
local net = nn.Sequential(nn.Conv2d(1, 8, 3), nn.GroupNorm(2, 8), nn.ReLU(), nn.MaxPool2d(2),
   nn.Conv2d(8, 16, 3), nn.BatchNorm2d(16), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(),
   nn.Linear(16, 10)):eval()
local p, x, y = {}, torch.randn(64, 1, 12, 12), torch.randint(1, 11, {64})
for name, parameter in net:named_parameters() do p[name] = parameter:detach() end
local function loss(p, x, y)
   return F.cross_entropy(func.functional_call(net, p, x:unsqueeze(1)), y:unsqueeze(1))
end
local one = func.grad(loss)
local each = func.vmap(one, {in_dims = {false, 1, 1}})]], [[
net = nn.Sequential(nn.Conv2d(1, 8, 3), nn.GroupNorm(2, 8), nn.ReLU(), nn.MaxPool2d(2),
                    nn.Conv2d(8, 16, 3), nn.BatchNorm2d(16), nn.ReLU(), nn.AdaptiveAvgPool2d(1),
                    nn.Flatten(), nn.Linear(16, 10)).eval()
p, x, y = {k: v.detach() for k, v in net.named_parameters()}, torch.randn(64, 1, 12, 12), torch.randint(0, 10, (64,))
def loss(p, x, y): return F.cross_entropy(torch.func.functional_call(net, p, (x[None],)), y[None])
one = torch.func.grad(loss)
each = torch.func.vmap(one, in_dims=(None, 0, 0))]]}
row("gradients of 64 samples, small CNN, by vmap", convolutional, "each(p, x, y)")
row("gradients of 64 samples, small CNN, one by one", convolutional,
   "for i = 1, 64 do one(p, x[i], y[i]) end", "for i in range(64): one(p, x[i], y[i])")

row("gradients of 64 samples, MLP 16-32-4, by vmap", {[[
local net = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 4))
local params = {}
for name, p in net:named_parameters() do params[name] = p:detach() end
local x, y = torch.randn(64, 16), torch.randint(1, 5, {64})
local function loss(p, a, b) return F.cross_entropy(torch.func.functional_call(net, p, a), b) end
local each = torch.func.vmap(torch.func.grad(loss), {in_dims = {false, 1, 1}})]], [[
net = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 4))
params = {name: p.detach() for name, p in net.named_parameters()}
x, y = torch.randn(64, 16), torch.randint(0, 4, (64,))
def loss(p, a, b): return F.cross_entropy(torch.func.functional_call(net, p, (a,)), b)
each = torch.func.vmap(torch.func.grad(loss), in_dims=(None, 0, 0))]]},
   "local r = each(params, x, y)", "r = each(params, x, y)")

-- Loaders: rounds of one epoch, by workers that stay -----------------------------------------------

group = "data"

-- Returns the source of a dataset of n items. Computing an item takes the given seconds of processor time or, with
-- `waits`, sleeps for these seconds.
local function dataset(n, seconds, waits)
   local lua = waits and "torch.distributed._sleep(%g)"
      or "local begin = torch.io.clock()\n   while torch.io.clock() - begin < %g do end"
   local python = waits and "sleep(%g)" or "begin = clock()\n        while clock() - begin < %g: pass"
   return ([[
local Set = torch.class("Set", torch.data.Dataset)
function Set:__len() return %d end
function Set:get(i)
   local torch = require "tlua"
   %s
   return self.x[i], i %% 10 + 1
end
local set = Set()
set.x = torch.randn(%d, 16)]]):format(n, lua:format(seconds), n), ([[
from time import sleep
class Set(torch.utils.data.Dataset):
    x = torch.randn(%d, 16)
    def __len__(self): return %d
    def __getitem__(self, i):
        %s
        return self.x[i], i %% 10
set = Set()]]):format(n, n, python:format(seconds))
end

local function epoch(name, lua, python, batch)
   row(name, {
      lua .. "\nlocal loader = torch.data.DataLoader(set, {batch_size = " .. batch
         .. ", num_workers = 2, persistent_workers = true})",
      python .. "\nloader = torch.utils.data.DataLoader(set, batch_size=" .. batch
         .. ", num_workers=2, persistent_workers=True)",
   }, "for a, b in loader:iter() do end", "for a, b in loader: pass")
end

epoch("2 workers, 20000 rows of a TensorDataset, batches of 64",
   "local set = torch.data.TensorDataset(torch.randn(20000, 16), torch.randint(1, 11, {20000}))",
   "set = torch.utils.data.TensorDataset(torch.randn(20000, 16), torch.randint(0, 10, (20000,)))", 64)
local lua, python = dataset(20000, 0)
epoch("2 workers, 20000 small items, batches of 64", lua, python, 64)
lua, python = dataset(320, 200e-6)
epoch("2 workers, 320 items of 200 us, batches of 16", lua, python, 16)

-- Adds a row for a loader that works while training steps run. A step takes as long as loading the items of a batch,
-- 3.2 ms. With `waits`, both items and steps sleep, as if they waited for a device. Otherwise both compute, and need
-- three processors: one for the program and two for workers.
local function behind(name, steps, waits)
   local set, python_set = dataset(16 * steps, 200e-6, waits)
   local step = waits and "torch.distributed._sleep(3.2e-3)"
      or "local begin = clock() while clock() - begin < 3.2e-3 do end"
   local python_step = waits and "sleep(3.2e-3)" or "begin = clock()\n    while clock() - begin < 3.2e-3: pass"
   rows[#rows + 1] = {group = group, name = name,
      setup = {
         set .. "\nlocal loader = torch.data.DataLoader(set, {batch_size = 16, num_workers = 2, "
            .. "persistent_workers = true})",
         python_set .. "\nloader = torch.utils.data.DataLoader(set, batch_size=16, num_workers=2, "
            .. "persistent_workers=True)",
      },
      lua = "for a, b in loader:iter() do " .. step .. " end",
      python = "for a, b in loader:\n    " .. python_step,
      alone = ("for i = 1, %d do %s end"):format(steps, step)}
end
behind("2 workers, the same behind 20 steps of 3.2 ms", 20, false)
behind("2 workers, items and 40 steps that wait as long", 40, true)

-- the file has 15 MB, so a time of 100,000 us means 150 MB per second
rows[#rows + 1] = {group = group, name = "CSV of 15 MB, 8 columns of numbers", setup = {[[
local path = os.tmpname()
local file = io.open(path, "w")
file:write("a,b,c,d,e,f,g,h\n")
local line = "0.25,17,-3.125,1024,0.5,99,7.75,123456\n"
local text = line:rep(1000)
for _ = 1, 15000000 // #text + 1 do file:write(text) end
file:close()
local rows = torch.data.CSV(path)
local kept <const> = setmetatable({}, {__gc = function() os.remove(path) end})
rows.kept = kept]], ""},
   lua = "for piece in rows:iter() do end", python = false}

return rows
