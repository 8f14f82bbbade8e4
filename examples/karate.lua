-- A graph convolutional network finds the communities of Zachary's karate club. Only one member of
-- each community has a label. The program draws the club with the communities that the network has
-- found:
--
--    tlua examples/karate.lua
--    tlua examples/karate.lua --svg club.svg --epochs 200
--
-- The drawing is an SVG document: friends attract one another, and all members repel one another.
local torch = require "tlua"
local graphs = torch.graphs

local parser = torch.utils.options("karate.lua", "Finds the communities of a karate club.")
parser:option("--epochs", "steps of the optimizer", 100)
parser:option("--seed", "what the random numbers start from", 1)
parser:option("--svg", "where the drawing goes", "karate.svg")
local opt = parser:parse()
torch.manual_seed(opt.seed)

local data = graphs.datasets.KarateClub():get(1)
local model = graphs.nn.GCN(data.num_features, 16, 2, 4, {dropout = 0.2})
local optimizer = torch.optim.Adam(model:parameters(), {lr = 0.02, weight_decay = 5e-4})

for epoch = 1, opt.epochs do
   model:train()
   optimizer:zero_grad()
   local scores = model(data.x, data.edge_index)
   local loss = torch.nn.functional.cross_entropy(scores[data.train_mask], data.y[data.train_mask])
   loss:backward()
   optimizer:step()
   if epoch % 20 == 0 then print(("epoch %3d: loss %.3f"):format(epoch, loss:item())) end
end

model:eval()
local found = torch.no_grad(function() return model(data.x, data.edge_index):argmax(2) end)
local others = ~data.train_mask
local right = found:eq(data.y)[others]:sum():item()
print(("%d of %d other members are in their community"):format(right, others:sum():item()))

-- Returns positions (nodes, 2) in which friends are near each other (Fruchterman and Reingold,
-- 1991).
local function layout(edge_index, n, rounds)
   local adjacency = graphs.utils.to_dense_adj(edge_index, {max_num_nodes = n})[1]
   local ideal = n ^ -0.5
   local place = torch.rand(n, 2)
   for round = 1, rounds do
      local apart = place:unsqueeze(2) - place:unsqueeze(1)
      local distance = apart:norm(2, 3):clamp_min(0.01)
      local push = ideal ^ 2 / distance ^ 2
      local pull = adjacency * distance / ideal
      local force = ((push - pull):unsqueeze(3) * apart):sum(2)
      local length = force:norm(2, 2, true):clamp_min(1e-9)
      -- the largest move of a node in a round, which falls to 0
      local step = 0.1 * (1 - round / rounds)
      place = place + force / length * length:clamp_max(step)
   end
   local least, most = place:amin(1), place:amax(1)
   return (place - least) / (most - least)
end

-- Draws the club. A circle's fill shows the community that the network has found, and its ring the
-- true one. Labelled members have larger circles.
local function draw(path, place)
   local colors <const> = {"#4477aa", "#ee6677", "#228833", "#ccbb44"}
   local at, size, edge = (place * 560 + 40):tolist(), 640, data.edge_index:t():tolist()
   local out = {}
   local function add(text, ...) out[#out + 1] = text:format(...) end
   add('<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d">', size, size)
   add('<rect width="%d" height="%d" fill="white"/>', size, size)
   for _, ends in ipairs(edge) do
      local a, b = at[ends[1]], at[ends[2]]
      if ends[1] < ends[2] then
         add('<line x1="%.1f" y1="%.1f" x2="%.1f" y2="%.1f" stroke="#bbbbbb"/>', a[1], a[2],
            b[1], b[2])
      end
   end
   for i = 1, data.num_nodes do
      local x, y, labelled = at[i][1], at[i][2], data.train_mask[i]:item()
      add('<circle cx="%.1f" cy="%.1f" r="%d" fill="%s" stroke="%s" stroke-width="4"/>', x, y,
         labelled and 18 or 13, colors[found[i]:item()], colors[data.y[i]:item()])
      add('<text x="%.1f" y="%.1f" font-family="sans-serif" font-size="12" fill="white" '
         .. 'text-anchor="middle" dominant-baseline="central">%d</text>', x, y, i)
   end
   out[#out + 1] = "</svg>\n"
   local file <close> = assert(io.open(path, "w"))
   file:write(table.concat(out, "\n"))
end

draw(opt.svg, layout(data.edge_index, data.num_nodes, 400))
