-- share.lua - trains a small model, packs it into one file, and loads it from that file alone, as
-- other users would.

local torch = require "tlua"
local nn, hub = torch.nn, torch.hub

-- Points inside a circle belong to class 2, and all other points to class 1.
torch.manual_seed(1)
local points = torch.rand(2000, 2) * 2 - 1
local classes = points:pow(2):sum(2):lt(0.6):long() + 1

local architecture = {"nn.Sequential", {"nn.Linear", 2, 32}, {"nn.ReLU"}, {"nn.Linear", 32, 2}}
local model = nn.Sequential(nn.Linear(2, 32), nn.ReLU(), nn.Linear(32, 2))
local optimizer = torch.optim.Adam(model:parameters(), {lr = 0.02})
local loss_of = nn.CrossEntropyLoss()
for _ = 1, 200 do
   optimizer:zero_grad()
   loss_of(model(points), classes):backward()
   optimizer:step()
end

local name = os.tmpname()
local path = hub.pack({
   name = "circle", architecture = architecture, weights = model, license = "MIT",
   summary = "tells whether a point lies in a circle",
   card = "Trained on 2,000 points; takes (N, 2) from -1 to 1.",
   config = {classes = {"outside", "inside"}},
}, name .. ".safetensors")

print(hub.help(path))
local copy = hub.load(path, "circle")
local right = copy(points):argmax(2):eq(classes):float():mean():item()
print(("the copy is right for %.0f %% of the points"):format(100 * right))
os.remove(path)
os.remove(name)
