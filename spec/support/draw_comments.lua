-- Draws comments at random from the files that git tracks, for a reader who marks each of them as
-- clear or not at first reading.
--
--    ./tlua spec/support/draw_comments.lua [COUNT [SEED [FOLDER ...]]]
--
-- It prints the seed, then each comment with its file and line. As an editor would, it also shows the code to which the
-- comment belongs: the line that begins the enclosing function or structure, and up to four lines of code from the
-- comment on. A comment of several lines counts once. Horizontal rules, annotations without prose, instructions to
-- tools and comments of one word are left out.

local count = math.tointeger(tonumber(arg[1] or 100))
local seed = math.tointeger(tonumber(arg[2] or os.time()))
if not (count and seed) then
   io.stderr:write "draw_comments: expected COUNT and SEED to be whole numbers\n"
   os.exit(1)
end
local folders = table.move(arg, 3, #arg, 1, {})
if #folders == 0 then folders = {"src", "kernels", "lua", "spec", "rocks", "examples"} end

local comments = require("spec.support.comments").read(folders)

local function lines_of(path)
   local lines = {}
   for line in io.lines(path) do lines[#lines + 1] = line end
   return lines
end

-- Returns the line that begins the function or structure around line `at`, which is the last line above that is not
-- indented. Returns nil if line `at` is not indented itself.
local function enclosing(lines, at)
   if not lines[at]:find "^%s" then return nil end
   for i = at - 1, 1, -1 do
      if lines[i]:find "^[%a_]" then return lines[i] end
   end
end

-- Returns up to four lines of code from line `at` on, until an empty line.
local function code_from(lines, at)
   local last = at
   while last < at + 3 and (lines[last + 1] or ""):find "%S" do last = last + 1 end
   return table.concat(lines, "\n      ", at, last)
end

math.randomseed(seed)
print(("seed %d: %d of %d comments"):format(seed, math.min(count, #comments), #comments))
for number = 1, math.min(count, #comments) do
   local at = math.random(number, #comments)
   comments[number], comments[at] = comments[at], comments[number]
   local drawn = comments[number]
   local lines = lines_of(drawn.path)
   local around = enclosing(lines, drawn.at)
   print(("\n%d. %s:%d%s\n%s\n      %s"):format(number, drawn.path, drawn.line, around and ", in " .. around or "",
      drawn.text:gsub("^%s+", ""):gsub("%s+$", ""), code_from(lines, drawn.at)))
end
