-- step_rows.lua - rows for whole training steps on a GPU, in the form of rows.lua: GPT-2 with 124M
-- parameters and ResNet-50 under autocast to bfloat16, and an MLP. Each step runs eagerly and as a
-- captured graph; PyTorch runs it eagerly and compiled (torch.compile). GPU_SHORT=1 makes all models
-- tiny.

local short <const> = os.getenv "GPU_SHORT" == "1"
local rows = {}

local function row(name, setup, theirs, lua, python)
   rows[#rows + 1] = {group = "steps", name = name, setup = {setup, theirs}, lua = lua, python = python}
end

-- Adds one row for each way to run a step: eagerly and as a captured graph. `setup` defines the function step() in each
-- language.
local function ways(name, setup, theirs, inputs)
   local captured = ("local captured = torch.cuda.capture_step(step, {%s})"):format(inputs)
   row(name .. ", eager", setup, theirs, "step()", "step()")
   row(name .. ", captured; eager", setup .. "\n" .. captured, theirs, ("captured(%s)"):format(inputs), "step()")
   row(name .. ", captured; compiled", setup .. "\n" .. captured, theirs .. "\nstep = torch.compile(step)",
      ("captured(%s)"):format(inputs), "step()")
end

local gpt <const> = short and {layers = 2, heads = 2, width = 32, context = 16, vocab = 64, batch = 2}
    or {layers = 12, heads = 12, width = 768, context = 1024, vocab = 50257, batch = 16}
local function fill(text, values) return (text:gsub("%$(%w+)", values)) end

ways(("GPT-2, %d layers of %d, %d x %d tokens, AdamW"):format(gpt.layers, gpt.width, gpt.batch, gpt.context),
   fill([[
local GPT2 = dofile "examples/gpt2/model.lua"
local model = GPT2 {layers = $layers, heads = $heads, width = $width, context = $context, vocab = $vocab, dropout = 0.0}
local adam = torch.optim.AdamW(model:groups(0.1), {capturable = true})
local x, y = torch.randint(1, $vocab + 1, {$batch, $context}), torch.randint(1, $vocab + 1, {$batch, $context})
local function step(a, b)
   adam:zero_grad()
   local loss = torch.autocast({device = "cuda", dtype = "bfloat16"}, function() return model(a or x, b or y) end)
   loss:backward()
   adam:step()
   return loss:detach()
end]], gpt), fill([[
class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.LayerNorm($width), nn.LayerNorm($width)
        self.qkv, self.out = nn.Linear($width, 3 * $width), nn.Linear($width, $width)
        self.mlp = nn.Sequential(nn.Linear($width, 4 * $width), nn.GELU(approximate="tanh"),
                                 nn.Linear(4 * $width, $width))
    def forward(self, x):
        n, t, w = x.shape
        q, k, v = self.qkv(self.a(x)).view(n, t, 3, $heads, w // $heads).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(y.transpose(1, 2).reshape(n, t, w))
        return x + self.mlp(self.b(x))
class GPT(nn.Module):
    def __init__(self):
        super().__init__()
        self.tokens, self.places = nn.Embedding($vocab, $width), nn.Embedding($context, $width)
        self.blocks, self.ln = nn.Sequential(*[Block() for _ in range($layers)]), nn.LayerNorm($width)
    def forward(self, x, y):
        h = self.tokens(x) + self.places(torch.arange($context, device=x.device))
        logits = F.linear(self.ln(self.blocks(h)), self.tokens.weight)
        return F.cross_entropy(logits.view(-1, $vocab), y.view(-1))
model = GPT()
device = next(model.parameters()).device.type
adam = torch.optim.AdamW(model.parameters(), fused=True)
x, y = torch.randint(0, $vocab, ($batch, $context)), torch.randint(0, $vocab, ($batch, $context))
def step():
    adam.zero_grad()
    with torch.autocast(device, torch.bfloat16):
        loss = model(x, y)
    loss.backward()
    adam.step()]], gpt), "x, y")

local image <const> = short and {width = 4, size = 32, batch = 2} or {width = 64, size = 224, batch = 64}
ways(("ResNet-50, %d images of %d, SGD"):format(image.batch, image.size), fill([[
local function conv(i, o, k, s)
   return nn.Conv2d(i, o, k, {stride = s, padding = k // 2, bias = false}), nn.BatchNorm2d(o)
end
local Block = torch.class("bench.Block", nn.Module)
function Block:__init(i, c, s)
   nn.Module.__init(self)
   local a, b = conv(i, c, 1, 1)
   local d, e = conv(c, c, 3, s)
   local f, g = conv(c, 4 * c, 1, 1)
   self.body = nn.Sequential(a, b, nn.ReLU(), d, e, nn.ReLU(), f, g)
   self.around = i == 4 * c and s == 1 and nn.Identity() or nn.Sequential(conv(i, 4 * c, 1, s))
end
function Block:forward(x) return F.relu(self.body(x) + self.around(x)) end
local stem, norm = conv(3, $width, 7, 2)
local net, inputs = nn.Sequential(stem, norm, nn.ReLU(), nn.MaxPool2d(3, {stride = 2, padding = 1})), $width
for stage, count in ipairs {3, 4, 6, 3} do
   for i = 1, count do
      local c = $width << (stage - 1)
      net:append(Block(inputs, c, i == 1 and stage > 1 and 2 or 1))
      inputs = 4 * c
   end
end
net:append(nn.AdaptiveAvgPool2d(1)):append(nn.Flatten()):append(nn.Linear(inputs, 1000))
local model = net:to {memory_format = torch.channels_last}
local sgd = torch.optim.SGD(model:parameters(), {lr = 0.1, momentum = 0.9})
local x = torch.randn($batch, 3, $size, $size):contiguous {memory_format = torch.channels_last}
local y = torch.randint(1, 1001, {$batch})
local function step(a, b)
   sgd:zero_grad()
   local loss = torch.autocast({device = "cuda", dtype = "bfloat16"},
      function() return F.cross_entropy(model(a or x), b or y) end)
   loss:backward()
   sgd:step()
   return loss:detach()
end]], image), fill([[
def conv(i, o, k, s):
    return [nn.Conv2d(i, o, k, s, k // 2, bias=False), nn.BatchNorm2d(o)]
class Block(nn.Module):
    def __init__(self, i, c, s):
        super().__init__()
        self.body = nn.Sequential(*conv(i, c, 1, 1), nn.ReLU(), *conv(c, c, 3, s), nn.ReLU(), *conv(c, 4 * c, 1, 1))
        self.around = nn.Identity() if i == 4 * c and s == 1 else nn.Sequential(*conv(i, 4 * c, 1, s))
    def forward(self, x):
        return F.relu(self.body(x) + self.around(x))
layers, inputs = [*conv(3, $width, 7, 2), nn.ReLU(), nn.MaxPool2d(3, 2, 1)], $width
for stage, count in enumerate((3, 4, 6, 3)):
    for i in range(count):
        layers.append(Block(inputs, $width << stage, 2 if i == 0 and stage > 0 else 1))
        inputs = 4 * ($width << stage)
layers += [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(inputs, 1000)]
model = nn.Sequential(*layers).to(memory_format=torch.channels_last)
device = next(model.parameters()).device.type
sgd = torch.optim.SGD(model.parameters(), 0.1, 0.9)
x = torch.randn($batch, 3, $size, $size).contiguous(memory_format=torch.channels_last)
y = torch.randint(0, 1000, ($batch,))
def step():
    sgd.zero_grad()
    with torch.autocast(device, torch.bfloat16):
        loss = F.cross_entropy(model(x), y)
    loss.backward()
    sgd.step()]], image), "x, y")

ways("MLP 64-128-10, batch 32, Adam", [[
local model = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 10))
local adam = torch.optim.Adam(model:parameters(), {capturable = true})
local x, y = torch.randn(32, 64), torch.randint(1, 11, {32})
local function step(a, b)
   adam:zero_grad()
   local loss = F.cross_entropy(model(a or x), b or y)
   loss:backward()
   adam:step()
   return loss:detach()
end]], [[
model = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 10))
adam = torch.optim.Adam(model.parameters())
x, y = torch.randn(32, 64), torch.randint(0, 10, (32,))
def step():
    adam.zero_grad()
    F.cross_entropy(model(x), y).backward()
    adam.step()]], "x, y")

return rows
