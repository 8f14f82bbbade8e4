-- worker.lua - answers one request of HTTP on the standard input and ends. inetd starts it for each
-- connection, whose socket is the input and the output. The body of a POST has one image per line,
-- as 64 grey levels; the answer has one digit per line.
local digits = require "digits" -- the file digits.lua of the example lighttpd
local MOST <const> = 1 << 20 -- the largest length of a body, in bytes

local function reply(status, text)
   io.write(("HTTP/1.0 %s\r\nContent-Type: text/plain\r\nContent-Length: %d\r\n\r\n%s")
      :format(status, #text, text))
end

local request = io.read "l" or ""
local length
for line in io.lines() do
   if line:find "^\r?$" then break end
   length = length or line:lower():match "^content%-length:%s*(%d+)%s*$"
end
length = math.tointeger(tonumber(length))

if not request:find "^POST " or not length then
   reply("405 Method Not Allowed", "POST lines of 64 grey levels\n")
elseif length > MOST then
   reply("413 Payload Too Large", ("got %d bytes, expected at most %d\n"):format(length, MOST))
else
   local body = length > 0 and io.read(length) or ""
   local good, text
   if #body < length then
      text = ("the body ended after %d of %d bytes"):format(#body, length)
   else
      good, text = pcall(digits.recognise, body)
   end
   reply(good and "200 OK" or "400 Bad Request", good and text or text .. "\n")
end
