-- Draws comments at random from the files that git tracks, for a reader who marks each of them as
-- clear or not at first reading.
--
--    ./tlua spec/support/draw_comments.lua [COUNT [SEED [FOLDER ...]]]
--
-- It prints the seed, then each comment with its file, its line and the line of code below it. A comment of several
-- lines counts once. Horizontal rules, annotations without prose, instructions to tools and comments of one word are
-- left out.

local count = math.tointeger(tonumber(arg[1] or 100))
local seed = math.tointeger(tonumber(arg[2] or os.time()))
if not (count and seed) then
   io.stderr:write "draw_comments: expected COUNT and SEED to be whole numbers\n"
   os.exit(1)
end
local folders = table.move(arg, 3, #arg, 1, {})
if #folders == 0 then folders = {"src", "kernels", "lua", "spec", "rocks", "examples"} end

local comments = require("spec.support.comments").read(folders)

math.randomseed(seed)
print(("seed %d: %d of %d comments"):format(seed, math.min(count, #comments), #comments))
for number = 1, math.min(count, #comments) do
   local at = math.random(number, #comments)
   comments[number], comments[at] = comments[at], comments[number]
   local drawn = comments[number]
   print(("\n%d. %s:%d\n%s\n      %s"):format(number, drawn.path, drawn.line,
      drawn.text:gsub("^%s+", ""):gsub("%s+$", ""), drawn.code:gsub("^%s+", "")))
end
