-- Writes a network like a tracker's to a .t7 file: one part computes features of an image, and
-- another computes boxes from them. Reads the file in ASCII and binary format, and runs the
-- network. Run it by:
--    tlua --torch7 tracker.lua

require "torch"
require "nn"
require "image"
require "paths"

torch.manualSeed(7)

local function build()
   local features = nn.Sequential()
   features:add(nn.SpatialConvolution(3, 4, 5, 5, 2, 2)):add(nn.Threshold(0, 1e-6))
   features:add(nn.SpatialMaxPooling(2, 2, 2, 2)):add(nn.SpatialCrossMapLRN(3))
   features:add(nn.View(4 * 7 * 7))
   local heads = nn.ConcatTable()
   heads:add(nn.Sequential():add(nn.Linear(4 * 7 * 7, 4)):add(nn.Sigmoid()))
   heads:add(nn.Sequential():add(nn.Linear(4 * 7 * 7, 2)):add(nn.LogSoftMax()))
   return nn.Sequential():add(features):add(heads)
end

local model = build()
model:evaluate()
local frame = image.scale(torch.rand(3, 48, 64), 32, 32)
local box, score = table.unpack(model:forward(frame))

local worst = 0
for _, format in ipairs {"binary", "ascii"} do
   local path = paths.tmpname()
   torch.save(path, {model = model, mean = 0.5, names = {"object", "background"}}, format)
   local saved = torch.load(path, format)
   os.remove(path)
   local again = saved.model:forward(frame)
   worst = math.max(worst, (again[1] - box):abs():max(), (again[2] - score):abs():max())
   print(("%s: %s sees the %s"):format(format, torch.type(saved.model), saved.names[1]))
end
print(("largest difference after reading: %g"):format(worst))
return worst
