-- Trains a residual network on synthetic images: noisy stripes, where the class is one of ten
-- directions.
--
--    tlua examples/resnet.lua
--    tlua examples/resnet.lua --depth 50 --image 224 --batch 256 --device cuda --dtype bfloat16
local torch = require "tlua"
local nn, optim, F = torch.nn, torch.optim, torch.nn.functional

local parser = torch.utils.options("resnet.lua", "Trains a residual network on made images.")
parser:option("--depth", "18, 34 or 50", 18)
parser:option("--width", "channels of the first stage", 16)
parser:option("--image", "rows and columns of an image", 32)
parser:option("--classes", "directions of stripes", 10)
parser:option("--steps", "steps of the optimizer", 40)
parser:option("--batch", "images in a step", 32)
parser:option("--lr", "learning rate of SGD at its highest", 0.1)
parser:option("--dtype", "float32, or what autocast computes in: bfloat16, float16", "float32")
parser:option("--device", "where to compute: cpu, cuda, sim", "cpu")
parser:option("--seed", "what the random numbers start from", 1)
parser:flag("--no-graph", "on a device: do not capture steps")
local opt = parser:parse()
torch.manual_seed(opt.seed)
local kind = opt.device:match "^%a+"

-- Model ----------------------------------------------------------------------------------------

local function conv(inputs, outputs, kernel, stride)
   return nn.Conv2d(inputs, outputs, kernel, {
      stride = stride, padding = kernel // 2, bias = false,
   })
end

local Block = torch.class("resnet.Block", nn.Module)

-- Makes a block: two 3x3 convolutions or, in deep networks, a 3x3 convolution between two 1x1
-- convolutions, with a residual connection. The scale of the last norm is initially 0, so that the
-- block starts as the identity.
function Block:__init(inputs, channels, stride, deep)
   nn.Module.__init(self)
   local outputs = deep and 4 * channels or channels
   local last = nn.BatchNorm2d(outputs)
   nn.init.zeros_(last.weight)
   if deep then
      self.body = nn.Sequential(conv(inputs, channels, 1, 1), nn.BatchNorm2d(channels), nn.ReLU(),
         conv(channels, channels, 3, stride), nn.BatchNorm2d(channels), nn.ReLU(),
         conv(channels, outputs, 1, 1), last)
   else
      self.body = nn.Sequential(conv(inputs, channels, 3, stride), nn.BatchNorm2d(channels),
         nn.ReLU(), conv(channels, outputs, 3, 1), last)
   end
   self.around = nn.Identity()
   if stride > 1 or inputs ~= outputs then
      self.around = nn.Sequential(conv(inputs, outputs, 1, stride), nn.BatchNorm2d(outputs))
   end
end

function Block:forward(x) return F.relu(self.body(x) + self.around(x)) end

local stages = {[18] = {2, 2, 2, 2}, [34] = {3, 4, 6, 3}, [50] = {3, 4, 6, 3}}

-- Returns the network. Large images are first reduced by a factor of four.
local function resnet(depth, width, classes, image)
   local counts = assert(stages[depth], "--depth: expected 18, 34 or 50, got " .. depth)
   local deep = depth >= 50
   local net = nn.Sequential()
   if image >= 128 then
      net:append(conv(3, width, 7, 2)):append(nn.BatchNorm2d(width)):append(nn.ReLU())
      net:append(nn.MaxPool2d(3, {stride = 2, padding = 1}))
   else
      net:append(conv(3, width, 3, 1)):append(nn.BatchNorm2d(width)):append(nn.ReLU())
   end
   local inputs = width
   for stage, count in ipairs(counts) do
      local channels = width << (stage - 1)
      for i = 1, count do
         net:append(Block(inputs, channels, i == 1 and stage > 1 and 2 or 1, deep))
         inputs = deep and 4 * channels or channels
      end
   end
   net:append(nn.AdaptiveAvgPool2d(1)):append(nn.Flatten()):append(nn.Linear(inputs, classes))
   return net
end

-- Images ---------------------------------------------------------------------------------------

local axis = torch.linspace(-1, 1, opt.image)

-- Returns images (batch, 3, image, image) and their classes (batch).
local function images(count)
   local class = torch.randint(1, opt.classes + 1, {count})
   local angle = (class:float() * (math.pi / opt.classes)):view(-1, 1, 1)
   local phase = torch.rand(count, 1, 1) * (2 * math.pi)
   local along = angle:cos() * axis:view(1, 1, -1) + angle:sin() * axis:view(1, -1, 1)
   local stripes = (along * 12 + phase):sin():unsqueeze(2)
   return stripes + torch.randn(count, 3, opt.image, opt.image) * 0.5, class
end

-- Training -------------------------------------------------------------------------------------

local model = resnet(opt.depth, opt.width, opt.classes, opt.image):to(opt.device)
local rate = torch.tensor(0.0):to(opt.device)
local sgd = optim.SGD(model:parameters(), {
   lr = rate, momentum = 0.9, nesterov = true, weight_decay = 5e-4,
})
local scaler = torch.amp.GradScaler(kind, {enabled = opt.dtype == "float16"})

local function train(x, y)
   sgd:zero_grad()
   local right
   local loss = torch.autocast({
      device = kind, enabled = opt.dtype ~= "float32",
      dtype = opt.dtype ~= "float32" and opt.dtype or nil,
   }, function()
      local logits = model(x)
      right = logits:argmax(2):eq(y):float():mean()
      return F.cross_entropy(logits, y)
   end)
   scaler:scale(loss):backward()
   scaler:step(sgd)
   scaler:update()
   return loss:detach(), right
end

local step = function(x, y) return train(x:to(opt.device), y:to(opt.device)) end
if kind ~= "cpu" and not opt.no_graph then
   step = torch[kind].capture_step(train, {
      torch.zeros(opt.batch, 3, opt.image, opt.image), torch.ones(opt.batch, {dtype = "int64"}),
   })
end

local started = torch.io.clock()
for at = 1, opt.steps do
   rate:fill_(opt.lr * math.min(at / 5, 0.5 + 0.5 * math.cos(math.pi * at / opt.steps)))
   local loss, right = step(images(opt.batch))
   if at % 10 == 0 or at == opt.steps then
      print(("step %d  loss %.4f  right %.0f %%  %.1f s"):format(
         at, loss:item(), 100 * right:item(), torch.io.clock() - started))
   end
end
