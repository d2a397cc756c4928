"""Message and answer rules that providers share, whatever their wire format."""
