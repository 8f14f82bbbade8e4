-- embed.lua [--bare] OUT.c ROOT FILE...: packs Lua sources and writes them as C string literals,
-- together with the tables that src/lua/embed.h declares. The path of a FILE below ROOT is the
-- module's name in `tlua`; an init.lua becomes the module of its folder. An argument MODULE=FILE
-- names the module explicitly. The script leaves out files that contain only annotations for
-- editors (`---@meta`). Empty lines replace comments that `help` does not read. With --bare, for a
-- library without `help`, empty lines replace all comments.

package.path = (arg[0]:match("^(.*)/[^/]*$") or ".") .. "/?.lua;" .. package.path
local pack = require "pack"

-- Returns bytes as C string literals of 64 bytes each. "?" is escaped, because "??" may begin a
-- trigraph.
local function literal(bytes)
   local lines = {}
   for at = 1, #bytes, 64 do
      lines[#lines + 1] = '  "' .. bytes:sub(at, at + 63):gsub('[^ !#->@-[%]-~]', function(c)
         return ("\\%03o"):format(c:byte())
      end) .. '"'
   end
   return table.concat(lines, "\n")
end

-- Returns the C definition of the decoding table of a Huffman code.
local function code(name, entries)
   local lines = {}
   for at = 1, #entries, 16 do
      lines[#lines + 1] = "  " .. table.concat(entries, ",", at, at + 15)
   end
   return ("\nconst uint16_t %s[1 << TLI_CODE_BITS] = {\n%s};\n"):format(
      name, table.concat(lines, ",\n"))
end

-- Returns the module's name, the file's path and the chunk's name for a command-line argument.
local function names(root, argument)
   local module, path = argument:match("^([%w_.]+)=(.+)$")
   if module then return module, path, (path:match("[^/]+$")) end
   path = argument
   assert(path:sub(1, #root + 1) == root .. "/", path .. " does not lie in " .. root)
   local inner = path:sub(#root + 2)
   module = "tlua." .. inner:gsub("%.lua$", ""):gsub("/", ".")
   return module:gsub("%.init$", ""), path, inner
end

local function read(path)
   local file <close> = assert(io.open(path, "rb"))
   return file:read("a")
end

-- If a string or a long bracket begins at `at`, returns the position at which it ends; otherwise
-- returns nil.
local function end_of_string(text, at)
   local equals = text:match("^%[(=*)%[", at)
   if equals then return select(2, assert(text:find("]" .. equals .. "]", at, true))) end
   local quote = text:match("^[\"']", at)
   if not quote then return nil end
   repeat
      at = assert(text:find("[\\" .. quote .. "]", at + 1))
      local escape = text:sub(at, at) == "\\"
      if escape then at = at + 1 end
   until not escape
   return at
end

-- Returns the positions of the comments that `help` reads, as keys of a table: the comment at the
-- top of the file, and each block of comment lines in which a line has three dashes.
local function documentation(text)
   local kept, block, documented = {}, {}, true
   for at, line in text:gmatch "()([^\n]*)\n?" do
      local dashes = line:match "^%s*()%-%-"
      if dashes then
         block[#block + 1] = at + dashes - 1
         documented = documented or line:find("^%-%-%-", dashes) ~= nil
      else
         for _, position in ipairs(documented and block or {}) do kept[position] = true end
         block, documented = {}, false
      end
   end
   return kept
end

-- Returns a chunk without its comments, except those at positions in `kept`. Empty lines replace
-- the comments, so that lines keep their numbers.
local function without_comments(text, kept)
   local out, at = {}, 1
   local function keep(last) out[#out + 1], at = text:sub(at, last), last + 1 end
   while at <= #text do
      keep((text:find("[%-%[\"']", at) or #text + 1) - 1)
      if kept[at] then
         keep((text:find("\n", at) or #text + 1) - 1)
      elseif text:find("^%-%-", at) then
         out[#out] = out[#out]:gsub("[ \t]+$", "")
         local last = text:find("^%-%-%[=*%[", at) and end_of_string(text, at + 2)
            or (text:find("\n", at) or #text + 1) - 1
         out[#out + 1] = text:sub(at, last):gsub("[^\n]", "")
         at = last + 1
      elseif at <= #text then
         keep(end_of_string(text, at) or at)
      end
   end
   local bare = table.concat(out)
   assert(string.dump(assert(load(bare, "=", "t"))) == string.dump(load(text, "=", "t")))
   return bare
end

local function collect(root, arguments, bare)
   local entries, seen = {}, {}
   for _, argument in ipairs(arguments) do
      local module, path, inner = names(root, argument)
      local text = read(path)
      assert(load(text, "@" .. path, "t")) -- stops the build if the file has a syntax error
      if not text:find("^%-%-%-@meta") then
         assert(not seen[module], "two files for the module " .. module)
         seen[module] = true
         entries[#entries + 1] = {module = module, chunk = "=tlua:" .. inner,
            text = without_comments(text, bare and {} or documentation(text))}
      end
   end
   table.sort(entries, function(a, b) return a.module < b.module end)
   return entries
end

local function write(path, entries)
   local texts = {}
   for i, entry in ipairs(entries) do texts[i] = entry.text end
   local packed, symbols, distances = pack.pack(texts)
   local out <close> = assert(io.open(path, "wb"))
   out:write("/* Written by src/gen/embed.lua. */\n", '#include "lua/embed.h"\n\n')
   out:write(("_Static_assert(TLI_CODE_BITS == %d && TLI_MIN_COPY == %d, \"as in pack.lua\");\n")
      :format(pack.CODE_BITS, pack.MIN_COPY))
   out:write(code("tli_symbol_code", symbols), code("tli_distance_code", distances))
   for i, entry in ipairs(entries) do
      out:write(("\n/* %s */\nstatic const char packed_%d[] =\n%s;\n"):format(
         entry.module, i, literal(packed[i] .. "\0\0\0")))
   end
   out:write("\nconst tli_Embedded tli_embedded[] = {\n")
   for i, entry in ipairs(entries) do
      out:write(('  {"%s", "%s", packed_%d, %d},\n'):format(
         entry.module, entry.chunk, i, #entry.text))
   end
   out:write(("  {NULL, NULL, NULL, 0},\n};\n\nconst size_t tli_embedded_count = %d;\n"):format(
      #entries))
end

local bare = arg[1] == "--bare"
if bare then table.remove(arg, 1) end
write(arg[1], collect(arg[2], {table.unpack(arg, 3)}, bare))
