-- layers.lua - convolutions and pooling of nested tensors (batch, ragged, channels, sizes...): each
-- row of a sequence is a separate image, such as a frame of a film.

local torch = require "tlua"
local V = require "tlua.nested.value"

local fail <const>, kind <const> = V.fail, V.kind
local F <const> = torch.nn.functional

for dims = 1, 3 do
   for name in ("conv conv_transpose max_pool avg_pool adaptive_avg_pool adaptive_max_pool lp_pool")
      :gmatch "%S+" do
      name = ("%s%dd"):format(name, dims)
      local fn = F[name]
      kind.define(name, function(x, ...)
         local p = kind.parts(x)
         if not p then kind.unsupported(name .. " with a nested weight") end
         if p.dim ~= 2 or p.values:dim() ~= dims + 2 then
            fail("%s: input: expected the shape (batch, ragged, channels%s), got %s; rows along "
               .. "the ragged dimension are images, which no kernel joins", name,
               (", size"):rep(dims), V.shown(p))
         end
         for i = 1, select("#", ...) do
            if kind.parts((select(i, ...))) then
               kind.unsupported(name .. " with a nested weight")
            end
         end
         local results = table.pack(fn(p.values, ...))
         for i = 1, results.n do results[i] = V.new(results[i], p.ragged, 2) end
         return table.unpack(results, 1, results.n)
      end, false)
   end
end
