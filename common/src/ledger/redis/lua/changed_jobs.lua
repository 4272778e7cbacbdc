-- What changed in the index: the name of its filling ('' until it is filled), how many jobs were found and how many there
-- are to find, how many are in it, the number of the last change here, and for each changed job its id and its summary
-- (nil where it was removed).
-- ARGV: the number that changes come behind, how many at most
local jobs, changed, removed, index = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local known = redis.call('HMGET', index, 'filling', 'found', 'total')
local count = redis.call('ZCOUNT', changed, '-inf', '+inf') - redis.call('ZCOUNT', removed, '-inf', '+inf')
local since = ARGV[1]
local found = redis.call('ZRANGEBYSCORE', changed, '(' .. since, '+inf', 'WITHSCORES', 'LIMIT', 0, ARGV[2])
local last, ids, answer = tonumber(since), {}, {}
for at = 1, #found, 2 do
  ids[#ids + 1] = found[at]
  last = tonumber(found[at + 1])
end
if #ids > 0 then
  local values = redis.call('HMGET', jobs, unpack(ids))
  for at, id in ipairs(ids) do
    local value = values[at]
    local colon = value and string.find(value, ':', 1, true)
    answer[at] = { id, colon and string.sub(value, colon + 1) or false }
  end
end
return { known[1] or '', tonumber(known[2] or '0'), tonumber(known[3] or '0'), count, last, answer }
