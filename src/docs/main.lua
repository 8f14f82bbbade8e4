-- main.lua - the program that generates the documentation. `tlua src/docs/main.lua OUT GEN`
-- collects the declarations in the sources and writes OUT/manual.md and the annotations for
-- editors: OUT/tlua.lua and a file for each package. With the third argument `site` it writes the
-- site instead.

local here = arg[0]:match "^(.*)/[^/]*$" or "."
package.path = here .. "/?.lua;" .. package.path

local root = here:match "^(.*)/src/docs$" or "."
local out, gen, site = arg[1], arg[2], arg[3]
assert(out and gen, "usage: tlua src/docs/main.lua OUT GEN [site]")

local function write(path, text)
   local file <close> = assert(io.open(path, "wb"))
   assert(file:write(text))
end

local all = require "declarations".all(root, gen)
if site then
   require "site".write(out, root, all)
   local n = require "declarations".count(all)
   print(("%d names, %d of them with an example and its output; %d of %d parameters have words")
      :format(n.names, n.examples, n.told, n.parameters))
else
   for name, text in pairs(require "annotations".files(all)) do
      write(("%s/%s.lua"):format(out, name), text)
   end
   write(out .. "/manual.md", require "manual".print(all))
end
